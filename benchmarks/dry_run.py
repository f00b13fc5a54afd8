"""What the dry run costs: its time for each sample, and its share of the time from Python to PTX."""

from __future__ import annotations

import gc
import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

import nvbackend as nvb

SAMPLES = ("hopper", "blackwell", "ampere", "ada", "turing", "consumer_blackwell")
ROUNDS = 9


def main() -> int:
    """Print a line for each sample: milliseconds to PTX without it, and with it."""
    for name in SAMPLES:
        gemm = importlib.import_module(f"samples.{name}_gemm").gemm
        to_ptx, alone, checked = _least(
            lambda: gemm.compile(check=False, assemble=False, cache=nvb.Cache.disabled()),  # noqa: B023
            lambda: gemm.build(check=False),  # noqa: B023
            gemm.build,
        )
        cost = checked - alone
        print(f"{name:20} to PTX {to_ptx * 1e3:6.0f} ms, dry run {cost * 1e3:6.0f} ms: {cost / to_ptx:.0%}")
    return 0


def _least(*runs: Callable[[], Any]) -> list[float]:
    """The least CPU time of each, in seconds: they take turns, so that what else runs slows all of them."""
    least = [float("inf")] * len(runs)
    for _ in range(ROUNDS):
        for number, run in enumerate(runs):
            gc.collect()
            start = time.process_time()
            run()
            least[number] = min(least[number], time.process_time() - start)
    return least


if __name__ == "__main__":
    sys.exit(main())
