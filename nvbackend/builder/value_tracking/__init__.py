"""The evaluator of per-thread integers: each thread's value, where it is uniform, and which threads come where."""
