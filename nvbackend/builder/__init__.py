"""How a person builds a kernel: typed values, control flow, memory, and one call for each machine operation."""
