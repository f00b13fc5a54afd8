"""Scalar code against NumPy: random expressions over all element types, on the host and on a GPU."""
