"""Compiled kernels outside of the process that built them: files of several targets, and headers of C."""
