"""Dataclasses that are made faster than Python's own, and print in one line."""
