"""Products with an epilogue of samples/gemm/fused.py, beside what PyTorch calls for the same, and the bare product."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import nvbackend as nvb
from benchmarks.tables.table import OURS, Case, Measured, Part, Row, Table, ratio, size, turns_for, us
from nvbackend import e4m3
from samples.gemm import fused
from samples.gemm.choice import Choice, choose
from samples.gemm.forms import launch_of
from samples.gemm.fused import EPILOGUES, Fused

THEIRS, BARE = "PyTorch", "bare"
ALPHA, BETA = 0.5, -3.0
SIZES = (4096, 4096, 4096), (512, 4096, 4096)
NAMES = {"bias_gelu": "bias, gelu", "residual": "residual", "row_scales": "scales of rows"}
LIMITS = {"bias_gelu": 2**-8, "residual": 2**-8, "row_scales": 2**-6}
"""PyTorch's gelu is another approximation, and its result with scales of rows is in bf16."""


def by_pytorch(name: str, operands: tuple[Any, ...], result: Any) -> None:
    """The call with the same epilogue."""
    import torch

    a, b, rows, columns, bias, more = operands
    if name == "bias_gelu":
        torch._addmm_activation(bias, a, b.T, use_gelu=True, out=result)
    elif name == "residual":
        torch.addmm(more, a, b.T, beta=BETA, alpha=ALPHA, out=result)
    else:
        scales = {"scale_a": rows[:, None], "scale_b": columns[None, :]}
        torch._scaled_mm(a, b.T, **scales, out_dtype=torch.bfloat16, use_fast_accum=True, out=result)


def made(name: str, m: int, n: int, depth: int) -> tuple[Any, ...]:
    """A, B, a scale for each row and one for each column, a bias in f16, and a residual."""
    import torch

    a, b = (torch.randn(count, depth, device="cuda", dtype=torch.float16) for count in (m, n))
    if EPILOGUES[name].form.operand is e4m3:
        a, b = (matrix.to(torch.float8_e4m3fn) for matrix in (a, b))
    rows, columns = (torch.rand(count, device="cuda") + 0.5 for count in (m, n))
    bias = torch.randn(n, device="cuda", dtype=torch.float16) * math.sqrt(depth)
    if name == "bias_gelu":
        columns = bias.float()
    more = torch.randn(*((m, n) if name == "residual" else (1, 1)), device="cuda", dtype=torch.float16)
    return a, b, rows, columns, bias, more


def case(
    name: str,
    shape: tuple[int, int, int],
    tiled: Fused,
    bare: Choice,
    loaded: nvb.runtime.LoadedKernel,
    bare_loaded: nvb.runtime.LoadedKernel,
) -> Case:
    """The product without the epilogue, by PyTorch, and by the loaded kernel."""
    import torch

    (m, n, depth), form = shape, EPILOGUES[name].form
    turns = turns_for((m + n) * depth * form.operand.bits // 8 + 2 * m * n * (2 if name == "residual" else 1))
    sets = [made(name, m, n, depth) for _ in range(turns)]
    theirs = torch.bfloat16 if form.operand is e4m3 else torch.float16
    kinds = {OURS: torch.float16, BARE: torch.float16, THEIRS: theirs}
    results = [
        {way: torch.full((m, n), math.nan, device="cuda", dtype=kind) for way, kind in kinds.items()}
        for _ in range(turns)
    ]
    multiprocessors = loaded.device.limits.multiprocessors
    grid, (_, _, *last) = tiled.tile.launch_of(m, n, depth, multiprocessors)
    bare_grid, bare_last = launch_of(bare, m, n, depth, multiprocessors, form)
    as_bytes = (lambda matrix: matrix.view(torch.uint8)) if form.operand is e4m3 else (lambda matrix: matrix)

    def by_kernel(turn: int, stream: Any) -> None:
        a, b, rows, columns, _, more = sets[turn]
        operands = as_bytes(a), as_bytes(b), results[turn][OURS]
        loaded.prepare(grid, *operands, rows, columns, more, ALPHA, BETA, *last, stream=stream).run()

    def without(turn: int, stream: Any) -> None:
        a, b = map(as_bytes, sets[turn][:2])
        bare_loaded.prepare(bare_grid, a, b, results[turn][BARE], *bare_last, stream=stream).run()

    ways = {BARE: without, THEIRS: lambda turn, _: by_pytorch(name, sets[turn], results[turn][THEIRS]), OURS: by_kernel}
    return Case(turns, ways, results.__getitem__, THEIRS, {OURS: LIMITS[name]})


def row(name: str, shape: tuple[int, int, int]) -> Row:
    """An epilogue of a shape."""
    epilogue, form, _ = EPILOGUES[name]
    tiled = fused.choose(*shape, epilogue, form.operand, form.result)
    bare = choose(*shape, form.operand, form.result)
    measured = Part((tiled.kernel, bare.kernel), partial(case, name, shape, tiled, bare))
    return Row((NAMES[name], size(*shape)), (measured,))


def cells(_: Row, every: Sequence[Measured]) -> list[str]:
    """The three times, and the ratio."""
    (measured,) = every
    return [*(us(measured.took[way]) for way in (BARE, THEIRS, OURS)), ratio(measured.ratio(THEIRS))]


def epilogues() -> Table:
    """Each epilogue, for many rows and for few."""
    return Table(
        "Epilogues",
        ("epilogue", "M x N x K", BARE, THEIRS, OURS, "ratio", "spread"),
        [row(name, shape) for name in EPILOGUES for shape in SIZES],
        cells,
    )
