"""Ordinary shared memory: accesses that leave their allocation, and what one thread writes and another uses."""
