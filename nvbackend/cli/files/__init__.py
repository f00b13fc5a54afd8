"""The files that a command line names: their kernels, and what they were in a commit."""
