"""The builder: values, control flow, and what the IR of kernels does."""
