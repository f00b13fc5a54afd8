"""What all CTAs of a grid have in common: numbers and addresses, and words that are 0 between launches."""
