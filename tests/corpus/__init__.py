"""Right kernels in the styles that people write them in, out of single operations: nothing may be said about them."""
