"""Finds kernels that were compiled before, in this or another process, by the contents of all that their functions read."""
