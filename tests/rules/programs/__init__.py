"""Programs of the protocols' tests: wrong ones with their rule, and right ones like them."""
