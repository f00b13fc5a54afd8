"""What a thread has of a tile in registers, as values with coordinates: maps, masks, row reductions, operands."""
