"""The kernels that can be chosen, at small shapes under compute-sanitizer: `python -m tests.sanitizer`."""
