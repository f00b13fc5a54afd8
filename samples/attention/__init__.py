"""O = softmax(Q K^T) V on Hopper for heads of 64 to 256: kernels with build-time constants, and a choice of them."""
