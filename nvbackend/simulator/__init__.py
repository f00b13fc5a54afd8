"""Runs PTX text without a GPU: the same launch, the same arrays, and checks that the hardware does not make."""
