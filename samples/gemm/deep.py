"""For few tiles of a great depth: the CTAs of a cluster share the depth of a tile, and each stores some of its columns.

Each CTA multiplies its own columns first, so that they are in the same registers in every CTA. It sends the sums of the
other columns to the CTAs that store them, thread by thread, with stores that complete on an mbarrier there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Annotated

import nvbackend as nvb
from nvbackend import Major, f16, f32, i32, s32
from samples.gemm import wide
from samples.gemm.checks import among, placed, positive, scaled, stored
from samples.gemm.tiles import Tiled
from samples.gemm.wide import LINE, PRODUCER_REGISTERS, REGISTERS, WARPGROUP_ROWS

PAIR, QUAD, QUAD_COLUMNS = 2, 4, 8
"""A thread has pairs of neighboring columns. Of eight columns it has four sums: a pair in each of two rows (PTX ISA
9.7.15.5.1, D)."""


def map_of_a(
    consumers: int, columns: int, split: int, operand: nvb.ElementType, swapped: bool, a_major: Major
) -> nvb.TensorMap:
    return wide.map_of(columns // split if swapped else WARPGROUP_ROWS * consumers, operand, False, a_major)


def map_of_b(
    consumers: int, columns: int, split: int, operand: nvb.ElementType, swapped: bool, b_major: Major
) -> nvb.TensorMap:
    return map_of_a(consumers, columns, split, operand, not swapped, b_major)


def pointer_to_c(result: nvb.ElementType) -> nvb.Pointer:
    return nvb.Pointer(result)


A = Annotated[nvb.TensorMap, map_of_a]
B = Annotated[nvb.TensorMap, map_of_b]
C = Annotated[nvb.Pointer, pointer_to_c]
Columns = Annotated[i32, nvb.Scalar(i32, multiple_of=PAIR)]
Place = tuple[nvb.Value, nvb.Value]
"""A row and a column."""


def converted(values: Sequence[nvb.Value], result: nvb.ElementType, scale: nvb.Value | None) -> Sequence[nvb.Value]:
    """Sums as they are stored: those of integers saturate, as `wide` has it."""
    scaled = values if scale is None else [value * scale for value in values]
    return [value.to(result, saturate=result.is_integer and result is not s32) for value in scaled]


def store_parts(
    k: nvb.KernelBuilder,
    c: nvb.Address,
    parts: Iterable[Sequence[nvb.Value]],
    first: Place,
    begin: Place | None,
    end: Place,
    n: nvb.Value,
    *,
    swapped: bool,
) -> None:
    """Store a thread's four sums after four, of which `first` has the first row and column, from `begin` up to `end`.

    `swapped`, rows and columns are those of C^T. C has rows of `n` elements.
    """
    together = 1 if swapped else PAIR
    for quad, four in enumerate(parts):
        for place in range(0, QUAD, together):
            i, j = first[0] + place // PAIR * 8, first[1] + quad * QUAD_COLUMNS + place % PAIR
            inside = (i < end[0]) & (j < end[1])
            with k.if_(inside if begin is None else (i >= begin[0]) & (j >= begin[1]) & inside):
                (c + (j * n + i if swapped else i * n + j)).store(*four[place : place + together])


@nvb.kernel("sm_90a", threads=lambda consumers: 128 * (1 + consumers), cluster=lambda split: split, min_ctas=1)
def deep(
    k: nvb.KernelBuilder,
    a: A,
    b: B,
    c: C,
    scale: f32,
    m: i32,
    n: Columns,
    steps: i32,
    *,
    operand: nvb.ElementType = f16,
    result: nvb.ElementType = f16,
    columns: int = 128,
    consumers: int = 2,
    split: int = 2,
    stages: int = 4,
    swapped: bool = False,
    a_major: Major = Major.K,
    b_major: Major = Major.K,
) -> None:
    """A cluster has a tile, each of its CTAs every `split`-th step; `scale` and `swapped` are as for `wide`."""
    left, right, height, width = (b, a, n, m) if swapped else (a, b, m, n)
    rows, depth, own, sums = WARPGROUP_ROWS * consumers, LINE // operand.bits, columns // split, wide.sums_of(operand)
    mma = wide.mma_of(k, operand, columns, rows)
    ring = k.pipeline(stages, consumers, a=mma.smem_a(depth, b_major if swapped else a_major), b=mma.smem_b(depth))
    exchange = k.cluster.reduce_scatter(mma, own_first=True)
    k.tma.prefetch_maps(a, b)
    k.mbarrier.ready()
    rank, tile = k.cluster.rank(), k.cluster.id()
    tiles_down = (height + rows - 1) // rows
    i_tile, j_tile = tile % tiles_down, tile // tiles_down
    row, column = wide.begin(k, i_tile, rows, height), wide.begin(k, j_tile, columns, width)
    mine = lambda: k.range(rank, steps, split, name="step")  # noqa: E731

    with k.producer(registers=PRODUCER_REGISTERS):
        wide.overlap(k)
        parts = [column + first for first in exchange.parts()]
        with mine() as step, ring.fill() as stage:
            k.tma.load(stage.a, left, (row, step * depth), stage.full)
            for part, first in enumerate(parts):
                k.tma.load(stage.b.rows_from(part, own), right, (first, step * depth), stage.full)

    with k.consumers(registers=REGISTERS[consumers]) as warpgroup:
        acc, thread = mma.accumulator(), warpgroup * 128 + k.thread_id() % 128
        acc.clear()
        with mine(), ring.drain(in_flight=1) as stage, k.wgmma.group(in_flight=1):
            mma.accumulate(acc, stage.a, stage.b, warpgroup)
        k.wgmma.wait_group(0, drains=[acc])
        exchange.send(acc, warpgroup)
        of_thread = row + thread // 32 * 16 + thread % 32 // 4, column + exchange.first + thread % 4 * PAIR
        factor = scale if operand.bits == 8 and sums is f32 else None
        totals = exchange.sums()
        summed = (converted(totals[at : at + QUAD], result, factor) for at in range(0, len(totals), QUAD))
        # Elements of the tile before are left to it: of three CTAs or more it may add their sums in another order.
        begin = i_tile * rows, j_tile * columns
        store_parts(k, c, summed, of_thread, begin, (height, width), n, swapped=swapped)


@dataclass(frozen=True)
class Deep(Tiled):
    """A choice of the constants."""

    columns: int = 128
    consumers: int = 2
    split: int = 2
    stages: int = 4
    operand: nvb.ElementType = f16
    result: nvb.ElementType = f16
    swapped: bool = False
    a_major: Major = Major.K
    b_major: Major = Major.K

    def __post_init__(self) -> None:
        among(REGISTERS, consumers=self.consumers)
        stored(self.operand, (self.a_major, self.b_major))
        if (self.a_major if self.swapped else self.b_major) is Major.MN:
            raise ValueError("CTAs that share a depth load parts of a right operand that is K-major, not MN-major")
        positive(columns=self.columns, split=self.split, stages=self.stages)
        if self.split < 2 or self.columns % (QUAD_COLUMNS * self.split):
            raise ValueError(f"{self.split} CTAs cannot store equal parts of {self.columns} columns")

    @property
    def label(self) -> str:
        """The tile and how the depth is shared, in words."""
        tile = f"{self.rows} x {self.columns}{' of C^T' if self.swapped else ''}"
        return f"{tile}, depth shared by {self.split}, {self.stages} stages"

    @property
    def rows(self) -> int:
        """Rows of a tile."""
        return WARPGROUP_ROWS * self.consumers

    @property
    def depth(self) -> int:
        """Columns of A and B that a step multiplies."""
        return LINE // self.operand.bits

    @property
    def kernel(self) -> nvb.KernelDefinition:
        return deep.with_(**vars(self))

    def ctas(self, m: int, n: int) -> int:
        """All CTAs: a cluster for each tile."""
        return prod(self.tiles(m, n)) * self.split

    def launch_of(
        self, m: int, n: int, depth: int, _multiprocessors: int, *, scale: float = 1.0
    ) -> tuple[int, tuple[float, ...]]:
        """The grid, a cluster for each tile, and the last arguments.

        Raises ValueError for a C of more than 2^31 elements, and for a scale of operands other than 8-bit floats.
        """
        placed(m, n)
        scaled(self.operand, scale)
        return self.ctas(m, n), (scale, m, n, -(-depth // self.depth))
