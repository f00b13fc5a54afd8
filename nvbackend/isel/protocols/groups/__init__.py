"""Groups of asynchronous operations: which threads commit them and wait for them."""
