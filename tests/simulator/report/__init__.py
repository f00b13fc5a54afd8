"""What a report says, held against counts made by hand, and against the layout room's own model of banks."""
