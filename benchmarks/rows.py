"""Softmax and norms of rows: bytes read and written a second, in turns with a plain copy, and then for PyTorch.

    PYTHONPATH=. python -m benchmarks.rows [--rounds N] [--repeats N] [SIZE ...]        SIZE is ROWSxCOLUMNS

Needs a GPU and PyTorch. Each launch takes other arrays than the launches before it, so that none is left in L2.
`--repeats` is the number of launches of a turn: the first ones after a copy take longer, so short turns give less.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable
from typing import Any

import nvbackend as nvb
from benchmarks.arguments import end_without_pytorch
from benchmarks.machine import machine
from nvbackend import bf16, f16, f32
from samples import rows
from samples.program import target_here

SIZES = ("8192x8192", "16384x4096")
BEYOND_L2 = 2**29
"""Bytes of the arrays that the launches take in turns."""
WARMUP = 10


def rivals(torch: Any) -> dict[str, Callable[..., Any]]:
    """What PyTorch calls for each kernel: of X and the weights."""
    functional = torch.nn.functional
    return {
        "softmax": lambda x: torch.softmax(x, 1),
        "layer_norm": lambda x, weight, bias: functional.layer_norm(x, x.shape[1:], weight, bias, rows.EPSILON),
        "rms_norm": lambda x, weight: functional.rms_norm(x, x.shape[1:], weight, rows.EPSILON),
    }


def measure(form: str, element: nvb.ElementType, size: tuple[int, int], rounds: int, repeats: int) -> str:
    """A row of the table."""
    import torch

    dtype = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}[str(element)]
    sets = max(3, BEYOND_L2 // (2 * size[0] * size[1] * element.bits // 8))
    xs = [torch.randn(size, device="cuda", dtype=dtype) for _ in range(sets)]
    ys = [torch.empty_like(x) for x in xs]
    count = {"softmax": 0, "layer_norm": 2, "rms_norm": 1}[form]
    weights = [torch.randn(size[1], device="cuda", dtype=dtype) for _ in range(count)]
    kernel = rows.fitting(rows.KERNELS[form], size[1], element)
    loaded = nvb.runtime.load(kernel.compile(target=target_here(kernel)[0]))
    stream = torch.cuda.current_stream()
    prepared = [loaded.prepare(size[0], x, *weights, y, size[1], stream=stream) for x, y in zip(xs, ys, strict=True)]
    rival = rivals(torch)[form]
    prepared[0].run()
    right = rival(xs[0].double(), *(weight.double() for weight in weights))
    off = float((ys[0].double() - right).abs().max() / right.abs().max())
    turns = [itertools.cycle(range(sets)) for _ in range(3)]

    def copy() -> None:
        ys[at := next(turns[0])].copy_(xs[at])

    def ours() -> None:
        prepared[next(turns[2])].run()

    how = {"rounds": rounds, "repeats": repeats, "warmup": WARMUP, "stream": stream}
    timings = nvb.runtime.time_launches({"copy": copy, "nvbackend": ours}, **how)
    timings |= nvb.runtime.time_launches({"PyTorch": lambda: rival(xs[next(turns[1])], *weights)}, **how)
    moved = 2 * size[0] * size[1] * element.bits // 8
    rates = " ".join(f"{moved / timing.median * 1e-9:10.2f}" for timing in timings.values())
    verdict = "right" if off < {"f16": 1e-3, "bf16": 8e-3, "f32": 1e-5}[str(element)] else "WRONG"
    return f"{form:>10} {element!s:>5} {'x'.join(map(str, size)):>12} {rates}  {verdict} ({off:.1e})"


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("sizes", nargs="*", default=SIZES, metavar="SIZE")
    arguments.add_argument("--rounds", type=int, default=20)
    arguments.add_argument("--repeats", type=int, default=10, help="launches of a turn")
    chosen = arguments.parse_args()
    end_without_pytorch()
    print(machine())
    print(f"{'':>10} {'':>5} {'size':>12} {'copy':>10} {'nvbackend':>10} {'PyTorch':>10}  (TB/s, medians)")
    for form in rows.KERNELS:
        for element in (f16, bf16, f32):
            for size in chosen.sizes:
                extents = [int(extent) for extent in size.split("x")]
                print(measure(form, element, (extents[0], extents[1]), chosen.rounds, chosen.repeats), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
