"""Run-time values: numbers with operators, indices as distances, accumulators."""
