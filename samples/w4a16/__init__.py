"""Y = X W^T on Hopper for few rows of X, W of 4 bits: kernels with build-time constants, and a choice of them."""
