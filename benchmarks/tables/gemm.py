"""GEMMs in f16 by the kernel that the model chooses, and by cuBLAS: of any shape, and however A and B are stored."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import nvbackend as nvb
from benchmarks.arguments import extents
from benchmarks.gemm_shapes import FEW_ROWS, LAYERS, MIDDLE, SIZES
from benchmarks.tables.table import OURS, Case, Measured, Part, Row, Table, ratio, size, turns_for, us
from nvbackend import Major, f16
from samples.gemm.choice import Choice, choose
from samples.gemm.forms import FORMS, Form, launch_of
from samples.gemm.skinny import Skinny
from samples.gemm.unaligned import TMA, width_of

THEIRS = "cuBLAS"
LIMIT = 2**-8
"""Of results in f16, whose sums are in another order."""

ORDERS = {"nt": FORMS["f16"], "nn": FORMS["f16_nn"], "tn": FORMS["f16_tn"], "tt": FORMS["f16_tt"]}
"""The letters say how A is stored and how B is."""
STORED = (
    (1024, 1024, 1024),
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (16, 8192, 8192),
    (128, 8192, 8192),
    (5000, 3008, 2000),
)
UNALIGNED = (
    (4097, 4097, 4097),
    (4096, 4096, 4098),
    (4096, 4096, 4100),
    (4096, 4098, 4096),
    (4096, 4099, 4096),
    (1001, 3003, 2005),
    (1, 4097, 4097),
    (16, 4097, 4097),
    (64, 4097, 4097),
)


def stored(rows: int, depth: int, major: Major) -> Any:
    """A random operand."""
    import torch

    shape = (rows, depth) if major is Major.K else (depth, rows)
    return torch.randn(*shape, device="cuda", dtype=torch.float16)


def case(m: int, n: int, depth: int, form: Form, choice: Choice, loaded: nvb.runtime.LoadedKernel) -> Case:
    """The product by cuBLAS, and by the loaded kernel of the choice."""
    import torch

    turns = turns_for(2 * (m * depth + n * depth + m * n))
    sets = [(stored(m, depth, form.majors[0]), stored(n, depth, form.majors[1])) for _ in range(turns)]
    ours, theirs = (
        [torch.full((m, n), math.nan, device="cuda", dtype=torch.float16) for _ in range(turns)] for _ in range(2)
    )
    grid, last = launch_of(choice, m, n, depth, loaded.device.limits.multiprocessors, form)

    def by_cublas(turn: int, _: Any) -> None:
        a, b = sets[turn]
        right = b.T if form.majors[1] is Major.K else b
        torch.matmul(a if form.majors[0] is Major.K else a.T, right, out=theirs[turn])

    def by_kernel(turn: int, stream: Any) -> None:
        loaded.prepare(grid, *sets[turn], ours[turn], *last, stream=stream).run()

    results = lambda turn: {THEIRS: theirs[turn], OURS: ours[turn]}  # noqa: E731
    return Case(turns, {THEIRS: by_cublas, OURS: by_kernel}, results, THEIRS, {OURS: LIMIT})


def part(m: int, n: int, depth: int, form: Form = FORMS["f16"]) -> tuple[Choice, Part]:
    """The model's choice, and what measures it."""
    choice = choose(m, n, depth, form.operand, form.result, majors=form.majors)
    return choice, Part((choice.kernel,), partial(case, m, n, depth, form, choice))


def tile(choice: Choice) -> str:
    """What a CTA computes, and how CTAs work together, without what is inside of one."""
    return re.sub(r", (loaded|\d+ (stages|rows at|a multi)).*", "", choice.label)


def times(measured: Measured) -> list[str]:
    """Both times and the ratio."""
    return [us(measured.took[THEIRS]), us(measured.took[OURS]), ratio(measured.ratio(THEIRS))]


def time_and_ratio(measured: Measured) -> str:
    """Both in a cell."""
    return f"{us(measured.took[OURS])}, {ratio(measured.ratio(THEIRS))}"


def shapes() -> Table:
    """Shapes from small to large."""
    choices = {size(*extents(word)): part(*extents(word)) for word in SIZES}
    return Table(
        "GEMM of any shape",
        ("M x N x K", "cuBLAS, us", "nvbackend, us", "ratio", "spread", "tile of C, cluster"),
        [Row((name,), (measured,)) for name, (_, measured) in choices.items()],
        lambda row, every: [*times(every[0]), tile(choices[row.names[0]][0])],
    )


def grid_of(heading: str, products: Sequence[tuple[int, int]], words: Sequence[str]) -> Table:
    """A row for each M, and a column for each N x K."""
    heights = dict.fromkeys(extents(word)[0] for word in words)
    return Table(
        heading,
        ("M", *(size(*product) for product in products), "spread"),
        [Row((str(m),), [part(m, *product)[1] for product in products]) for m in heights],
        lambda _, every: list(map(time_and_ratio, every)),
    )


def layers() -> Table:
    """Layers of language models."""
    return grid_of("Layers of language models", LAYERS, MIDDLE)


def few_rows() -> Table:
    """Decoding."""
    return grid_of("Few rows", list(dict.fromkeys(extents(word)[1:] for word in FEW_ROWS)), FEW_ROWS)


def orders() -> Table:
    """A and B stored either way."""
    return Table(
        "How A and B are stored",
        ("M x N x K", *ORDERS, "spread"),
        [Row((size(*shape),), [part(*shape, form)[1] for form in ORDERS.values()]) for shape in STORED],
        lambda _, every: list(map(time_and_ratio, every)),
    )


def copied(choice: Choice, depth: int) -> str:
    """What copies the rows of A and B, and how much at once."""
    if isinstance(choice, Skinny):
        return f"{TMA} bytes"
    width = width_of(depth, f16)
    return "TMA" if width == TMA else f"{width} bytes"


def unaligned() -> Table:
    """Rows that are not multiples of 16 bytes."""

    def row(shape: tuple[int, int, int]) -> Row:
        choice, measured = part(*shape)
        return Row((size(*shape), copied(choice, shape[2])), (measured,))

    return Table(
        "Rows that TMA cannot load or store",
        ("M x N x K", "copies", "cuBLAS", "nvbackend", "ratio", "spread"),
        list(map(row, UNALIGNED)),
        lambda _, every: times(every[0]),
    )
