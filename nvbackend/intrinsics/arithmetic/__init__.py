"""Instructions that compute a number from numbers: of floats, of integers, of pairs in one register."""
