"""One call for each machine operation, one file for each noun of the PTX ISA."""
