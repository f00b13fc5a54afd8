"""What single operands of an instruction take: numbers, names, alignment, and the extents of what they point to."""
