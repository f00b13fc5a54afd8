"""GEMMs of other types, in batches, with block scales, and with weights of 4 bits, against PyTorch's, in turns.

    PYTHONPATH=. python -m benchmarks.gemm_types [--rounds N] [NAME ...]

PyTorch calls cuBLAS and cuBLASLt; both launch from CUDA graphs. Needs a Hopper GPU. A ratio is
PyTorch's time over ours.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import nvbackend as nvb
from benchmarks.arguments import end_without_pytorch
from benchmarks.turns import MEDIANS, graph_of, microseconds, turns_for
from nvbackend import bf16, e4m3, f16, f32, s8, s32, tf32
from samples import block_scaled_gemm, w4a16_gemm
from samples.block_scales import BLOCK
from samples.gemm.choice import choose
from samples.gemm.wide import Wide


@dataclass(frozen=True)
class Case:
    """What is compared: the bytes of a set of operands, ours and theirs for each set, and their results."""

    size: int
    ours: Callable[[int, Any], object]
    theirs: Callable[[int, Any], object]
    results: Callable[[int], tuple[Any, Any]]
    built: str


def wide(m: int, n: int, depth: int, operand: Any, result: Any, batches: int | None = None) -> Case:
    """The sample's GEMM for these types."""
    import torch

    kinds = {bf16: torch.bfloat16, f16: torch.float16, f32: torch.float32, s32: torch.int32}
    choice = choose(m, n, depth, operand, result, batches=batches)
    loaded = nvb.runtime.load(choice.kernel.compile())
    front = () if batches is None else (batches,)
    size = (batches or 1) * ((m + n) * depth * operand.bits + m * n * result.bits) // 8
    made: list[tuple[Any, ...]] = []
    for _ in range(turns_for(size)):
        a, b = (torch.randn(*front, rows, depth, device="cuda") for rows in (m, n))
        if operand is s8:
            a, b = (torch.randint(-128, 128, one.shape, device="cuda", dtype=torch.int8) for one in (a, b))
        elif operand is e4m3:
            a, b = (one.to(torch.float8_e4m3fn) for one in (a, b))
        elif operand is not tf32:
            a, b = (one.to(kinds[operand]) for one in (a, b))
        made.append((a, b, *(torch.zeros(*front, m, n, device="cuda", dtype=kinds[result]) for _ in range(2))))
    one = torch.ones((), device="cuda")
    torch.backends.cuda.matmul.allow_tf32 = True

    def ours(turn: int, stream: Any) -> None:
        a, b, c, _ = made[turn]
        multiprocessors = loaded.device.limits.multiprocessors
        if isinstance(choice, Wide):
            grid, last = choice.launch_of(m, n, depth, multiprocessors, batches=batches or 1)
        else:
            grid, last = choice.launch_of(m, n, depth, multiprocessors)
        bytes_of = (lambda x: x.view(torch.uint8)) if operand is e4m3 else (lambda x: x)
        loaded.prepare(grid, bytes_of(a), bytes_of(b), c, *last, stream=stream).run()

    def theirs(turn: int, _: Any) -> None:
        a, b, _, c = made[turn]
        if operand is e4m3:
            torch._scaled_mm(a, b.T, scale_a=one, scale_b=one, out_dtype=kinds[result], use_fast_accum=True, out=c)
        elif operand is s8:
            torch._int_mm(a, b.T, out=c)
        else:
            torch.matmul(a, b.mT, out=c)

    return Case(size, ours, theirs, lambda turn: made[turn][2:], str(choice))


def block_scaled(m: int, n: int, depth: int) -> Case:
    """e4m3 with a factor for 1 x 128 elements of A and 128 x 128 of B."""
    import torch

    block, choice = BLOCK, block_scaled_gemm.choose(m, n, depth)
    loaded = nvb.runtime.load(choice.kernel.compile())
    size, made = (m + n) * depth + 2 * m * n, []
    for _ in range(turns_for(size)):
        a, b = (torch.randn(rows, depth, device="cuda").to(torch.float8_e4m3fn) for rows in (m, n))
        scales_a, scales_b = (torch.rand(depth // block, count, device="cuda") + 0.5 for count in (m, n // block))
        results = [torch.zeros(m, n, device="cuda", dtype=kind) for kind in (torch.float16, torch.bfloat16)]
        columns_of_b = scales_b.T.contiguous().T  # cuBLAS wants the factors of 128 rows of B side by side
        made.append((a, scales_a, b, scales_b, columns_of_b, *results))

    def ours(turn: int, stream: Any) -> None:
        a, scales_a, b, scales_b, _, c, _ = made[turn]
        grid, last = choice.launch_of(m, n, depth, loaded.device.limits.multiprocessors)
        operands = a.view(torch.uint8), b.view(torch.uint8), c, scales_a, scales_b
        loaded.prepare(grid, *operands, *last, stream=stream).run()

    def theirs(turn: int, _: Any) -> None:
        a, scales_a, b, _, columns_of_b, _, c = made[turn]
        torch._scaled_mm(a, b.T, scale_a=scales_a.T, scale_b=columns_of_b, out_dtype=torch.bfloat16, out=c)

    return Case(size, ours, theirs, lambda turn: made[turn][5:], choice.label)


def w4a16(m: int, n: int, depth: int) -> Case:
    """Weights of 4 bits, against a dense product of weights in f16."""
    import torch

    sample, choice, made = w4a16_gemm, w4a16_gemm.choose(m, n, depth), []
    loaded = nvb.runtime.load(choice.kernel.compile())
    block = torch.randint(0, 16, (sample.UNIT, depth))  # all tiles of rows are alike, as it takes long to pack them
    words = torch.from_numpy(sample.pack(block.numpy()).view("int32")).cuda().view(depth // sample.PART, -1)
    numbers = block.cuda().repeat(n // sample.UNIT, 1)
    packed = words.repeat(1, n // sample.UNIT).view(-1).view(torch.uint32)
    for _ in range(turns_for(n * depth // 2)):
        x = torch.randn(m, depth, device="cuda", dtype=torch.float16)
        scales = torch.rand(depth // sample.GROUP, n, device="cuda").to(torch.float16) * 0.1 + 0.01
        dense = (numbers - sample.BIAS).to(torch.float16) * scales.T.repeat_interleave(sample.GROUP, 1)
        made.append((x, packed.clone(), scales, dense, *(torch.zeros_like(x @ dense.T) for _ in range(2))))

    def ours(turn: int, stream: Any) -> None:
        x, w, scales, _, y, _ = made[turn]
        loaded.prepare(choice.grid(m, n), x, w, scales, y, m, n, depth // sample.GROUP, stream=stream).run()

    def theirs(turn: int, _: Any) -> None:
        x, _, _, dense, _, y = made[turn]
        torch.matmul(x, dense.T, out=y)

    return Case(n * depth // 2, ours, theirs, lambda turn: made[turn][4:], str(choice))


CASES: dict[str, Callable[[], Case]] = {
    **{f"bf16 {size}^3": lambda size=size: wide(size, size, size, bf16, bf16) for size in (1024, 4096, 8192)},
    **{f"e4m3 {size}^3": lambda size=size: wide(size, size, size, e4m3, f16) for size in (4096, 8192)},
    **{f"s8 {size}^3": lambda size=size: wide(size, size, size, s8, s32) for size in (4096, 8192)},
    **{f"tf32 {size}^3": lambda size=size: wide(size, size, size, tf32, f32) for size in (4096, 8192)},
    **{f"e4m3 {m} x 8192 x 8192": lambda m=m: wide(m, 8192, 8192, e4m3, f16) for m in (1, 16, 64)},
    **{f"e4m3 {m} x 4096 x 4096": lambda m=m: wide(m, 4096, 4096, e4m3, f16) for m in (1, 16, 64)},
    "s8 32 x 8192 x 8192": lambda: wide(32, 8192, 8192, s8, s32),
    "tf32 16 x 8192 x 8192": lambda: wide(16, 8192, 8192, tf32, f32),
    "f16 64 of 1024^3": lambda: wide(1024, 1024, 1024, f16, f16, 64),
    **{f"scaled e4m3 {size}^3": lambda size=size: block_scaled(size, size, size) for size in (4096, 8192)},
    **{f"scaled e4m3 {m} x 8192 x 8192": lambda m=m: block_scaled(m, 8192, 8192) for m in (8, 32, 64)},
    **{f"W4A16 {m} x 8192 x 8192": lambda m=m: w4a16(m, 8192, 8192) for m in (1, 16, 32, 64, 96, 128)},
    **{f"W4A16 {m} x 4096 x 4096": lambda m=m: w4a16(m, 4096, 4096) for m in (1, 16, 64, 128)},
    **{f"W4A16 {m} x 14336 x 4096": lambda m=m: w4a16(m, 14336, 4096) for m in (1, 16, 64, 128)},
}


def measure(name: str, rounds: int) -> None:
    """Print a row of the table."""
    import torch

    case = CASES[name]()
    turns = turns_for(case.size)
    graphs = {"PyTorch": graph_of(turns, case.theirs), "ours": graph_of(turns, case.ours)}
    for graph in graphs.values():
        graph.replay()
    torch.cuda.synchronize()
    pairs = [[one.double() for one in case.results(turn)] for turn in range(turns)]
    error = max(float((ours - theirs).abs().max() / theirs.abs().max()) for ours, theirs in pairs)
    del pairs
    took = microseconds(graphs, turns, rounds)
    wrong = "" if error < 2**-6 and not math.isnan(error) else "  DIFFERENT RESULTS"
    ratio = took["PyTorch"] / took["ours"]
    both = " ".join(f"{took[each]:9.1f} {took[each].spread:6.1%}" for each in ("PyTorch", "ours"))
    print(
        f"{name:>24} {both} {ratio:6.3f}  {error:.1e}{wrong}  {case.built}",
        flush=True,
    )


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("names", nargs="*", default=list(CASES), metavar="NAME", help=", ".join(CASES))
    arguments.add_argument("--rounds", type=int, default=20)
    chosen = arguments.parse_args()
    end_without_pytorch()
    head = f"{'':>24} {'PyTorch':>9} {'':>6} {'ours':>9} {'':>6} {'ratio':>6}"
    print(f"{head}  largest difference  (microseconds, {MEDIANS})")
    for name in chosen.names:
        try:
            measure(name, chosen.rounds)
        except RuntimeError as error:
            print(f"{name:>24} not measured: {str(error).splitlines()[0][:100]}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
