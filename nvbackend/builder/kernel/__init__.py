"""The kernel builder itself, the `kernel` decorator, and `attach`."""
