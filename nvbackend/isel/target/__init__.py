"""Exact chips, and the gate: the one form of a condition on what is asked of them."""
