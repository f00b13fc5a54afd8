"""Device functions: their declaration, their arguments, and their bodies, expanded in place or called; modules of kernels, which share them."""
