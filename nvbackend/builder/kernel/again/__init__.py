"""Kernels that were compiled before, in this process or another: by the content of all that their functions read."""
