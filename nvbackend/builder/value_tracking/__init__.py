"""The one evaluator of per-thread integers: which value each thread has, where it is the same, and who comes where."""
