"""For few rows of A: C^T = B @ A^T, so that B, which has most of the bytes, is the left operand of the tensor core.

If there are few tiles, the CTAs of a cluster split K: each multiplies a part of it, and they add their sums through
distributed shared memory. So there are enough CTAs to read B at the speed of the memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import nvbackend as nvb
from nvbackend import f16, f32, i32
from nvbackend.layout import Layout
from samples.gemm.checks import among, placed, positive
from samples.gemm.wide import begin, overlap

WARPGROUP_ROWS, TILE_K = 64, 64
REGISTERS = {1: (56, 200), 2: (56, 200), 3: (48, 112)}
"""Registers of a thread of the producer, which adds sums of a cluster too, and of the consumers, by CTAs that share a
multiprocessor."""
STORED = 4
"""Neighbours of a row of C that a thread stores. A column of the sums has so many elements more: no bank conflicts."""


def map_of_a(columns: int, operand: nvb.ElementType) -> nvb.TensorMap:
    return nvb.TensorMap(operand, box=(columns, TILE_K))


def map_of_b(consumers: int, operand: nvb.ElementType) -> nvb.TensorMap:
    return nvb.TensorMap(operand, box=(WARPGROUP_ROWS * consumers, TILE_K))


def pointer_to_c(operand: nvb.ElementType) -> nvb.Pointer:
    return nvb.Pointer(operand)


A = Annotated[nvb.TensorMap, map_of_a]
B = Annotated[nvb.TensorMap, map_of_b]
C = Annotated[nvb.Pointer, pointer_to_c]
Columns = Annotated[i32, nvb.Scalar(i32, multiple_of=STORED)]


@nvb.kernel(
    "sm_90a", threads=lambda consumers: 128 * (1 + consumers), cluster=lambda split: split, min_ctas=lambda ctas: ctas
)
def thin(
    k: nvb.KernelBuilder,
    a: A,
    b: B,
    c: C,
    m: i32,
    n: Columns,
    steps: i32,
    *,
    operand: nvb.ElementType = f16,
    columns: int = 16,
    consumers: int = 1,
    split: int = 1,
    stages: int = 10,
    ctas: int = 2,
) -> None:
    """A tile has 64 rows of B for each consumer and `columns` rows of A. A cluster's CTAs take every `split`-th step.

    `ctas` of them share a multiprocessor.
    """
    rows = WARPGROUP_ROWS * consumers
    mma = k.tiled_mma(nvb.wgmma.mma_async(f"m64n{columns}k16", operand, operand, f32), warpgroups=(consumers, 1))
    ring = k.pipeline(stages, consumers, b=mma.smem_a(TILE_K), a=mma.smem_b(TILE_K))
    sums = k.shared(f32, columns * (rows + STORED), name="sums")
    k.tma.prefetch_maps(a, b)
    k.mbarrier.ready()
    tiles_n = (n + rows - 1) // rows
    row, column = k.cluster.id() // tiles_n * columns, begin(k, k.cluster.id() % tiles_n, rows, n)
    rank = k.cluster.rank()
    mine = lambda: k.range(rank, steps, split, name="step")  # noqa: E731

    of_producer, of_consumers = REGISTERS[ctas]
    with k.producer(registers=of_producer):
        overlap(k)
        with mine() as step, ring.fill() as stage:
            k.tma.load(stage.b, b, (column, step * TILE_K), stage.full)
            k.tma.load(stage.a, a, (row, step * TILE_K), stage.full)

    with k.consumers(registers=of_consumers) as warpgroup:
        acc = mma.accumulator()
        acc.clear()
        with mine(), ring.drain(in_flight=1) as stage, k.wgmma.group(in_flight=1):
            mma.accumulate(acc, stage.b, stage.a, warpgroup)
        k.wgmma.wait_group(0, drains=[acc])
        acc.elements(warpgroup).store(k.tensor(sums, Layout((rows, columns), (1, rows + STORED))))

    meet = k.cluster.sync if split > 1 else k.barrier.sync
    meet()
    share = columns * rows // split
    with k.range(STORED * k.thread_id(), share, STORED * k.threads) as index:
        place = rank * share + index
        i, j = place // rows, place % rows
        parts = [k.cluster.map_shared_rank(sums, each) if split > 1 else sums for each in range(split)]
        loaded = [(part + i * (rows + STORED) + j).load(STORED) for part in parts]
        with k.if_((row + i < m) & (column + j < n)):
            total = [sum(four[1:], four[0]).to(operand) for four in zip(*loaded, strict=True)]
            (c + (row + i) * n + column + j).store(*total)
    if split > 1:
        k.cluster.sync()


@dataclass(frozen=True)
class Thin:
    """A choice of the constants."""

    columns: int = 16
    consumers: int = 1
    split: int = 1
    stages: int = 10
    ctas: int = 2
    operand: nvb.ElementType = f16

    def __post_init__(self) -> None:
        among(REGISTERS, ctas=self.ctas)
        positive(**{name: number for name, number in vars(self).items() if name != "operand"})
        if self.columns * self.rows % (STORED * self.split):
            raise ValueError(f"{self.split} CTAs cannot add equal parts of {self.rows} x {self.columns} sums")

    @property
    def label(self) -> str:
        """The tile and how the depth is shared, in words."""
        split = f", depth shared by {self.split}" if self.split > 1 else ""
        return f"{self.rows} rows of B x {self.columns}{split}, {self.stages} stages, {self.ctas} a multiprocessor"

    @property
    def rows(self) -> int:
        """Rows of B in a tile."""
        return WARPGROUP_ROWS * self.consumers

    @property
    def kernel(self) -> nvb.KernelDefinition:
        return thin.with_(**vars(self))

    def launch_of(self, m: int, n: int, depth: int, _multiprocessors: int) -> tuple[int, tuple[int, ...]]:
        """The grid, a cluster for each tile, and the last arguments. Raises ValueError if C is too large."""
        placed(m, n)
        return -(-m // self.columns) * -(-n // self.rows) * self.split, (m, n, -(-depth // TILE_K))
