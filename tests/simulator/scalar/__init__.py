"""Scalar instructions against exact arithmetic in Python, number by number."""
