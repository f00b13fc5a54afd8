"""What a program has open and what its things are called: with-blocks, names, the rules on both."""
