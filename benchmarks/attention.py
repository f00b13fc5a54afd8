"""The sample's flash attention against PyTorch's cuDNN and FlashAttention, on the same random data, in turns.

    PYTHONPATH=. python -m benchmarks.attention [--rounds N] [--depth N] [--causal] [--type bf16] [SIZE ...]

SIZE is HEADSxROWS; all heads of a batch count as heads. Needs a Hopper GPU and PyTorch. The ratio is the time of the
faster of these two divided by ours.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from typing import Any

import nvbackend as nvb
from benchmarks.arguments import end_without_pytorch
from benchmarks.machine import machine
from samples.attention.choice import choose
from samples.attention.forward import grid, kernel
from samples.flash_attention import BLOCKS

TOKENS = 65536
"""Rows of all heads together, where nothing else is asked for: 16 heads of 4,096 rows, say, in a batch of 4."""
SIZES = tuple(f"{16 * TOKENS // rows // 4}x{rows}" for rows in (1024, 2048, 4096, 8192, 16384))
WARMUP, REPEATS = 6, 3
ELEMENTS = {"f16": nvb.f16, "bf16": nvb.bf16}


def prepared(
    depth: int, q: Any, keys: Any, values: Any, o: Any, stream: Any, *, causal: bool, element: nvb.ElementType
) -> nvb.runtime.PreparedLaunch:
    """The launch of the faster sample, whose tiles are handed out."""
    import torch

    heads, rows, _ = q.shape
    form = choose(depth, rows, causal=causal)
    loaded = nvb.runtime.load(kernel(form, depth, causal=causal, element=element).compile())
    ctas = grid(heads, rows, loaded.device.limits.multiprocessors, form.consumers)
    counter = torch.zeros(1, device="cuda", dtype=torch.int32)
    return loaded.prepare(ctas, q, keys, values, o, heads, rows, counter, stream=stream)


def rivals(batch: list[Any], *, causal: bool) -> dict[str, Callable[[], Any]]:
    """PyTorch's attention by each library that takes these operands."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def by(backend: Any) -> Callable[[], Any]:
        def run() -> Any:
            with sdpa_kernel(backend):
                return torch.nn.functional.scaled_dot_product_attention(*batch, is_causal=causal)

        return run

    found = {}
    for name, backend in (("cuDNN", SDPBackend.CUDNN_ATTENTION), ("FlashAttention", SDPBackend.FLASH_ATTENTION)):
        try:
            by(backend)()
        except RuntimeError:
            continue
        found[name] = by(backend)
    return found


def measure(size: str, depth: int, rounds: int, *, causal: bool, element: str) -> float:
    """Print a row of the table; the ratio."""
    import torch

    heads, rows = (int(extent) for extent in size.split("x"))
    kind = {"f16": torch.float16, "bf16": torch.bfloat16}[element]
    q, keys, values = (torch.randn(heads, rows, depth, device="cuda", dtype=kind) for _ in range(3))
    ours = torch.full_like(q, math.nan)
    stream = torch.cuda.current_stream()
    launch = prepared(depth, q, keys, values, ours, stream, causal=causal, element=ELEMENTS[element])
    together = math.gcd(heads, 16)  # as heads of one element of a batch
    found = rivals([one.view(-1, together, rows, depth) for one in (q, keys, values)], causal=causal)
    expected = next(iter(found.values()))().reshape(q.shape)
    timings = nvb.runtime.time_launches(
        {**found, "ours": launch.run}, rounds=rounds, repeats=REPEATS, warmup=WARMUP, stream=stream
    )
    torch.cuda.synchronize()
    off = float((ours.float() - expected.float()).abs().max() / expected.float().abs().max())
    best = min(found, key=lambda name: timings[name].median)
    ratios = sorted(a / b for a, b in zip(timings[best].samples, timings["ours"].samples, strict=True))
    flops = 4e-9 * heads * rows * rows * depth / (2 if causal else 1)
    ratio = timings[best].median / timings["ours"].median
    print(
        f"{heads:>6} x {rows:<6} {best:>14} {flops / timings[best].median:6.0f} {flops / timings['ours'].median:6.0f} "
        f"{ratio:6.3f} {ratios[0]:6.2f}-{ratios[-1]:.2f}  {'equal' if off < 2e-2 else 'DIFFERENT RESULTS'} ({off:.1e})",
        flush=True,
    )
    return ratio


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("sizes", nargs="*", default=SIZES, metavar="SIZE")
    arguments.add_argument("--rounds", type=int, default=12)
    arguments.add_argument("--depth", type=int, choices=sorted(BLOCKS), default=128, help="the head's dimension")
    arguments.add_argument("--causal", action="store_true")
    arguments.add_argument("--type", choices=ELEMENTS, default="f16")
    chosen = arguments.parse_args()
    end_without_pytorch()
    print(machine())
    print(f"{'heads x rows':>15} {'best rival':>14} {'rival':>6} {'ours':>6} {'ratio':>6} {'spread':>11}  (TFLOP/s)")
    options = {"causal": chosen.causal, "element": chosen.type}
    ratios = [measure(size, chosen.depth, chosen.rounds, **options) for size in chosen.sizes]
    print(f"geometric mean of {len(ratios)} ratios: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
