"""How many registers and which elements each thread has of a matrix operand: what rows of MMAs are made of."""
