"""Matrix instructions over tiles: operands, accumulators, epilogues."""
