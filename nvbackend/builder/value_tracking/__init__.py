"""The evaluator of per-thread integers: each thread's value, the scope of its uniformity, and which threads come where."""
