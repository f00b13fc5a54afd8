"""What the dry run costs: its time for each sample, and its share of the way to PTX."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

import nvbackend as nvb

SAMPLES = ("hopper", "blackwell", "ampere", "ada", "turing", "consumer_blackwell")


def main() -> int:
    """Print a line for each sample: milliseconds to PTX without it, and with it."""
    for name in SAMPLES:
        gemm = importlib.import_module(f"samples.{name}_gemm").gemm
        to_ptx = _least(lambda: gemm.compile(check=False, assemble=False, cache=nvb.Cache.disabled()))  # noqa: B023
        alone, checked = _least(lambda: gemm.build(check=False)), _least(gemm.build)  # noqa: B023
        cost = checked - alone
        print(f"{name:20} to PTX {to_ptx * 1e3:6.0f} ms, dry run {cost * 1e3:6.0f} ms: {cost / to_ptx:.0%}")
    return 0


def _least(run: Callable[[], Any]) -> float:
    """The least CPU time of five runs, in seconds."""
    times = []
    for _ in range(5):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


if __name__ == "__main__":
    sys.exit(main())
