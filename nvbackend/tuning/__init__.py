"""Choosing by measuring: candidates of a kernel compiled, tried, timed in turns, and the best one kept on disk."""
