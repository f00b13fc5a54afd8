"""What programs that measure on a GPU ask of their arguments and of the machine."""

from __future__ import annotations

import argparse
import importlib.util
import sys

import nvbackend as nvb


def extents(size: str) -> tuple[int, int, int]:
    """M, N and K of MxNxK."""
    m, n, k = (int(extent) for extent in size.split("x"))
    return m, n, k


def product(word: str) -> str:
    """An argument MxNxK of `samples.gemm`."""
    try:
        given = extents(word)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{word!r} is not MxNxK, such as 256x5120x5120") from None
    for name, extent in zip("MNK", given, strict=True):
        if extent < 1:
            raise argparse.ArgumentTypeError(f"{name} = {extent} of {word} is not a positive number")
    return word


def end_without_pytorch() -> None:
    """End the program with a reason where PyTorch is not installed, or there is no GPU to measure on."""
    installed = importlib.util.find_spec("torch") is not None
    reason = nvb.runtime.no_gpu_reason() if installed else "PyTorch is not installed"
    if reason is not None:
        sys.exit(f"error: this measures on a GPU, beside PyTorch: {reason}")
