"""The sample's flash attention against cuDNN: both on the same random data, in turns, in one run.

    PYTHONPATH=. python -m benchmarks.attention [--rounds N] [SIZE ...]        SIZE is HEADSxROWS

Needs a Hopper GPU and PyTorch (whose `scaled_dot_product_attention` calls cuDNN). All heads of a batch count as heads.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import nvbackend as nvb
from samples import flash_attention as sample

SIZES = ("16x16384", "64x4096")
WARMUP = 10
REPEATS = 3


def measure(kernel: nvb.KernelDefinition, launch_grid: Sequence[int], heads: int, rows: int, rounds: int) -> str:
    """A row of the table."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q, keys, values = (torch.randn(heads, rows, sample.DEPTH, device="cuda", dtype=torch.float16) for _ in range(3))
    ours = torch.full_like(q, float("nan"))
    batch = [one.unsqueeze(0) for one in (q, keys, values)]
    stream = torch.cuda.current_stream()
    loaded = nvb.runtime.load(kernel.compile())
    launch = loaded.prepare(tuple(launch_grid), q, keys, values, ours, rows, stream=stream)
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        theirs = torch.nn.functional.scaled_dot_product_attention(*batch)[0]
        timings = nvb.runtime.time_launches(
            {
                "cuDNN": lambda: torch.nn.functional.scaled_dot_product_attention(*batch),
                "nvbackend": launch.run,
            },
            rounds=rounds,
            repeats=REPEATS,
            warmup=WARMUP,
            stream=stream,
        )
    torch.cuda.synchronize()
    off = float((ours.float() - theirs.float()).abs().max() / theirs.float().abs().max())
    ratios = sorted(a / b for a, b in zip(timings["cuDNN"].samples, timings["nvbackend"].samples, strict=True))
    rate = {name: 4e-9 * heads * rows * rows * sample.DEPTH / timing.median for name, timing in timings.items()}
    return (
        f"{heads:>6} x {rows:<8} {rate['cuDNN']:8.0f} {rate['nvbackend']:10.0f} "
        f"{rate['nvbackend'] / rate['cuDNN']:6.2f} {ratios[0]:6.2f}-{ratios[-1]:.2f}  "
        f"{'equal' if off < 2e-2 else 'DIFFERENT RESULTS'} ({off:.1e} of the largest)"
    )


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("sizes", nargs="*", default=SIZES, metavar="SIZE")
    arguments.add_argument("--rounds", type=int, default=20)
    chosen = arguments.parse_args()
    print(f"{'heads x rows':>16} {'cuDNN':>8} {'nvbackend':>10} {'ratio':>6} {'spread':>13}  (TFLOP/s, medians)")
    for size in chosen.sizes:
        heads, rows = (int(extent) for extent in size.split("x"))
        print(measure(sample.attention, sample.grid(heads, rows), heads, rows, chosen.rounds), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
