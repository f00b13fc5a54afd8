"""The first rounds of a loop apart from each other, and what is in flight or waited for in each of them."""
