"""Sums that the rounds of a loop over tiles leave to the rounds after them."""
