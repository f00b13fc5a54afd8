"""C = A @ B^T in f16 on Hopper for any shape: four kernels with build-time constants, and a model that chooses."""
