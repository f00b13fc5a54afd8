"""Tensor memory: allocation, the loads, stores and multiplications in flight, and what each waits for."""
