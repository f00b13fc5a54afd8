"""Finds kernels that were compiled before, in any process, by the contents of all that their functions read."""
