"""The machine: waves of CTAs, the lanes that step together, registers and how operands reach them."""
