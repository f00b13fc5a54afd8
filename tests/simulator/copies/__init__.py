"""Copies of the simulator: addresses against loops over elements."""
