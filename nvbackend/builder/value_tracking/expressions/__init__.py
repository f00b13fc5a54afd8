"""What a value's expression shows: its bits, its divisors, the variables in it."""
