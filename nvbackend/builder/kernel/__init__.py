"""The kernel builder itself, and the `kernel` decorator."""
