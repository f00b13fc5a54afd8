"""Right kernels with their mistakes, a file for each style."""

from tests.dry_run.kernels import (
    clusters,
    cutlass_sm80,
    cutlass_sm90,
    cutlass_sm100,
    cutlass_sm100_turns,
    deep_gemm,
    flash_attention3,
    hand_copies,
    hand_sync,
    promised_sizes,
    quack,
    rings_of_ours,
    threads_alone,
    thunderkittens,
    tilelang,
    triton_like,
)

STYLES = (
    cutlass_sm90,
    clusters,
    cutlass_sm80,
    cutlass_sm100,
    cutlass_sm100_turns,
    flash_attention3,
    thunderkittens,
    tilelang,
    deep_gemm,
    triton_like,
    hand_copies,
    hand_sync,
    promised_sizes,
    quack,
    rings_of_ours,
    threads_alone,
)
