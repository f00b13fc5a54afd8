"""Kernels as operators of frameworks, in the simulator and on a GPU; each skips where its framework is missing."""
