"""C = A @ B^T in f16 on Hopper for any shape: three kernels with build-time constants, and a model that chooses."""
