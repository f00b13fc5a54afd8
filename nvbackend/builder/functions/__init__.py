"""Device functions, expanded in place or called, and modules of kernels, which share them."""
