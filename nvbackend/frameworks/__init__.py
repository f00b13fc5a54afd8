"""What operators of PyTorch and JAX share."""
