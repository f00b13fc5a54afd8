"""Right kernels with their mistakes, a file for each style."""

from tests.dry_run.kernels import (
    cutlass_sm80,
    cutlass_sm90,
    deep_gemm,
    flash_attention3,
    thunderkittens,
    tilelang,
    triton_like,
)

STYLES = (cutlass_sm90, cutlass_sm80, flash_attention3, thunderkittens, tilelang, deep_gemm, triton_like)
