"""Mistakes in PTX of other compilers."""
