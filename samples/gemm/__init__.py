"""C = A @ B^T in f16 on Hopper for any shape: five kernels with build-time constants, and a model that chooses."""
