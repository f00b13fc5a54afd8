"""The product of block_scaled_gemm for few rows of A, as in decoding: the CTAs of a cluster share a tile's depth.

The kernel multiplies C^T = B @ A^T. Rows of a tile are 128 of B, which have one factor in a step; its columns are rows
of A, each with a factor of its own. Each CTA of the cluster scales and adds the products of its steps, sends its sums
to the others, and stores some columns: see `samples.gemm.deep`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import nvbackend as nvb
from nvbackend import e4m3, f16, f32, i32
from nvbackend.layout import Layout
from samples.block_scales import ALIGNED, BLOCK, SCALES_B, ScalesB
from samples.gemm.deep import PAIR, QUAD, QUAD_COLUMNS, Columns, Deep, converted, store_parts
from samples.gemm.model import microseconds
from samples.gemm.wide import PRODUCER_REGISTERS, REGISTERS, overlap

CONSUMERS = 2
"""Warpgroups of a tile, 64 rows each."""
THREADS = 128 * CONSUMERS
WIDTHS, SPLITS = (16, 32, 64, 128), (2, 4)
"""Columns of a tile, and how many CTAs may share its depth: eight were never faster."""
SHARED, MOST_STAGES = 215_000, 12
"""Bytes of shared memory for the stages and sums, and the most stages."""


def map_of_a(columns: int, split: int) -> nvb.TensorMap:
    return nvb.TensorMap(e4m3, box=(columns // split, BLOCK))


def scales_of(columns: int) -> int:
    """Scales of A that a step loads: whole lines of 128 bytes, at which TMA begins to write."""
    return max(columns, SCALES_B)


def map_of_scales_a(columns: int) -> nvb.TensorMap:
    return nvb.TensorMap(f32, box=(1, scales_of(columns)), swizzle=0)


A = Annotated[nvb.TensorMap, map_of_a]
B = Annotated[nvb.TensorMap, nvb.TensorMap(e4m3, box=(BLOCK, BLOCK))]
C = Annotated[nvb.Pointer, nvb.Pointer(f16)]
ScalesA = Annotated[nvb.TensorMap, map_of_scales_a]


@nvb.kernel("sm_90a", threads=128 + THREADS, cluster=lambda split: split, min_ctas=1)
def gemm(
    k: nvb.KernelBuilder,
    a: A,
    b: B,
    c: C,
    scales_a: ScalesA,
    scales_b: ScalesB,
    m: i32,
    n: Columns,
    steps: i32,
    *,
    columns: int = 16,
    split: int = 2,
    stages: int = 11,
) -> None:
    """A cluster has a tile, each of its CTAs every `split`-th step."""
    own = columns // split
    mma = k.tiled_mma(nvb.wgmma.mma_async(f"m64n{columns}k32", e4m3, e4m3, f32), warpgroups=(CONSUMERS, 1))
    of_a, of_b = (f32, Layout(scales_of(columns))), (f32, Layout(SCALES_B))
    a_tile, b_tile = mma.smem_b(BLOCK), mma.smem_a(BLOCK)
    ring = k.pipeline(stages, CONSUMERS, released_by="thread", b=b_tile, a=a_tile, of_a=of_a, of_b=of_b)
    exchange = k.cluster.reduce_scatter(mma, own_first=True)
    k.tma.prefetch_maps(a, b)
    k.mbarrier.ready()
    rank, tile = k.cluster.rank(), k.cluster.id()
    tiles_down = (n + (BLOCK - 1)) // BLOCK
    down, column = tile % tiles_down, tile // tiles_down * columns
    mine = lambda: k.range(rank, steps, split, name="step")  # noqa: E731

    with k.producer(registers=PRODUCER_REGISTERS):
        overlap(k)
        with mine() as step, ring.fill() as stage:
            k.tma.load(stage.b, b, (down * BLOCK, step * BLOCK), stage.full)
            for part, row in enumerate(exchange.parts()):
                k.tma.load(stage.a.rows_from(part, own), a, (column + row, step * BLOCK), stage.full)
            k.tma.load_box(stage.of_a.at(0), scales_a, (column, step), stage.full)
            k.tma.load_box(stage.of_b.at(0), scales_b, (down // ALIGNED * ALIGNED, step), stage.full)

    with k.consumers(registers=REGISTERS[CONSUMERS]) as warpgroup:
        product, sums = mma.accumulator("product"), mma.accumulator("sums")
        thread = warpgroup * 128 + k.thread_id() % 128
        sums.fill(0.0)
        with mine():
            with ring.drain() as stage:
                total = sums.elements(warpgroup)
                factors = total.columns(lambda at: stage.of_a[exchange.column(at)]) * stage.of_b[down % ALIGNED]
                product.clear()
                with k.wgmma.group(in_flight=0):
                    mma.accumulate(product, stage.b, stage.a, warpgroup)
            sums.set(total.map(lambda old, x, factor: k.math.fma(x, factor, old), product.elements(warpgroup), factors))
        exchange.send(sums, warpgroup)
        totals = exchange.sums()
        parts = (converted(totals[at : at + QUAD], f16, None) for at in range(0, len(totals), QUAD))
        first = down * BLOCK + thread // 32 * 16 + thread % 32 // 4, column + exchange.first + thread % 4 * PAIR
        store_parts(k, c, parts, first, None, (n, m), n, swapped=True)


@dataclass(frozen=True)
class FewRows:
    """A choice of the constants."""

    columns: int = 16
    split: int = 2
    stages: int = 11

    @property
    def label(self) -> str:
        """The tile and how the depth is shared, in words."""
        return f"{BLOCK} x {self.columns} of C^T, depth shared by {self.split}, {self.stages} stages"

    @property
    def kernel(self) -> nvb.KernelDefinition:
        return gemm.with_(**vars(self))

    @property
    def _unscaled(self) -> Deep:
        return Deep(self.columns, CONSUMERS, self.split, self.stages, e4m3, f16, swapped=True)

    def microseconds(self, m: int, n: int, depth: int, multiprocessors: int) -> float:
        """What the model of samples.gemm says of a launch, whose products have no scales."""
        return microseconds(self._unscaled, m, n, depth, multiprocessors)

    def launch_of(self, m: int, n: int, depth: int, _multiprocessors: int) -> tuple[int, tuple[int, ...]]:
        """The grid, and the arguments after the matrices."""
        return self._unscaled.ctas(m, n), (m, n, -(-depth // BLOCK))


def forms(m: int) -> list[FewRows]:
    """Those that have all `m` rows of A in a tile; none for more than 128 rows."""
    columns = next((columns for columns in WIDTHS if m <= columns), None)
    if columns is None:
        return []
    found = []
    for split in SPLITS:
        if columns % (QUAD_COLUMNS * split) == 0:
            stage = (BLOCK + columns) * BLOCK + 4 * (scales_of(columns) + SCALES_B)
            room = SHARED - 4 * BLOCK * (columns // split) * (split - 1)
            found.append(FewRows(columns, split, min(MOST_STAGES, room // stage)))
    return found
