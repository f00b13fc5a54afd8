"""Mathematics of numbers: the machine's own functions, and accurate ones that are made of fused multiply-adds."""
