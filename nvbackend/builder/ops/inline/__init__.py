"""PTX that a user writes: text with named operands, judged like the rows of the catalogue."""
