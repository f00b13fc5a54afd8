"""The Hopper GEMM against cuBLAS: both on the same random data, in turns, in one run.

    PYTHONPATH=. python benchmarks/gemm.py [--rounds N] [SIZE ...]        SIZE is MxNxK

Needs a Hopper GPU and PyTorch (whose f16 `matmul` is cuBLAS). The ratio is nvbackend's rate over cuBLAS's.
"""

from __future__ import annotations

import argparse
import sys

import nvbackend as nvb
from benchmarks.arguments import end_without_pytorch
from benchmarks.machine import machine
from samples import hopper_gemm

WARMUP = 40
"""Rounds before the first that counts: until then the chip's clock is still falling to what its power allows."""
SIZES = ("4096x4096x4096", "8192x8192x8192", "8192x8192x1024")


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("sizes", nargs="*", default=SIZES, metavar="SIZE")
    arguments.add_argument("--rounds", type=int, default=20)
    chosen = arguments.parse_args()
    end_without_pytorch()
    print(machine())
    import torch

    loaded = nvb.runtime.load(hopper_gemm.gemm.compile())
    print(f"{'M x N x K':>18} {'cuBLAS':>10} {'nvbackend':>10} {'ratio':>6} {'spread':>13}  (TFLOP/s, medians)")
    for size in chosen.sizes:
        m, n, k = (int(extent) for extent in size.split("x"))
        a, b = (torch.randn(rows, k, device="cuda", dtype=torch.float16) for rows in (m, n))
        ours, theirs = (torch.full((m, n), float("nan"), device="cuda", dtype=torch.float16) for _ in range(2))
        stream = torch.cuda.current_stream()
        launch = loaded.prepare(
            hopper_gemm.grid(m, n, loaded.device.limits.multiprocessors),
            a,
            b,
            ours,
            *hopper_gemm.extents(m, n, k),
            stream=stream,
        )
        transposed = b.T
        timings = nvb.runtime.time_launches(
            {"cuBLAS": lambda a=a, b=transposed, c=theirs: torch.matmul(a, b, out=c), "nvbackend": launch.run},
            rounds=chosen.rounds,
            warmup=WARMUP,
            stream=stream,
        )
        torch.cuda.synchronize()
        same = torch.equal(ours, theirs)
        ratios = sorted(
            theirs / ours for theirs, ours in zip(timings["cuBLAS"].samples, timings["nvbackend"].samples, strict=True)
        )
        rate = {name: 2e-9 * m * n * k / timing.median for name, timing in timings.items()}
        print(
            f"{size:>18} {rate['cuBLAS']:10.0f} {rate['nvbackend']:10.0f} "
            f"{rate['nvbackend'] / rate['cuBLAS']:6.2f} {ratios[0]:6.2f}-{ratios[-1]:.2f}  "
            f"{'bit for bit equal' if same else 'DIFFERENT RESULTS'}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
