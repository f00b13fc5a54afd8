"""What `nvbackend explain` prints of instructions: of one row, of all rows of one spelling, and of a line of PTX."""
