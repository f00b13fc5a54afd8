"""Checks of a run: kernels that are right, and each of them with one piece removed."""
