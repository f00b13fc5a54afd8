"""Grids that overlap: what a kernel accesses before it has waited for the kernels before it."""
