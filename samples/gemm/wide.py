"""For large results: persistent CTAs walk over tiles of C, and a cluster shares each tile of B.

The types of operands and result, how A and B are stored, the tile, and whether there is a batch of matrices are
constants of the build. A tile has a multiple of 64 rows, and of 16 columns. So the kernel can also multiply C^T =
B A^T: A is the right operand then, and few of a tile's columns are outside of a matrix whose rows are not a multiple of
64. Operands of 16 bits may be stored with K as the rows, A as K x M and B as K x N (MN-major).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Annotated, Any

import nvbackend as nvb
from nvbackend import Major, f16, f32, i32, s32
from samples.gemm.checks import among, positive, scaled, stored
from samples.gemm.tiles import Tiled

WARPGROUP_ROWS, LINE = 64, 1024
"""Rows of a warpgroup's part of a tile, and bits of a row of a tile in shared memory: what TMA swizzles."""
NARROW = (16, 32)
"""Columns of narrow tiles: the few rows of A, in tiles of C^T, or of B."""
INSTRUCTION = 256
"""Bits of a row that one instruction multiplies."""
PRODUCER_REGISTERS = 40
REGISTERS = {1: 240, 2: 232, 3: 152}
"""Registers of a thread of the consumers, by their number: what is left of the CTA's."""


def rows_of(consumers: int, pingpong: bool) -> int:
    """Rows of a tile: those of all consumers, or of one where each has tiles of its own."""
    return WARPGROUP_ROWS * (1 if pingpong else consumers)


def map_of(
    rows: int, operand: nvb.ElementType, batched: bool, major: Major = Major.K, together: int = 1
) -> nvb.TensorMap:
    """That of a matrix of which a step loads so many rows. CTAs that go together each load an equal part of a line."""
    line = LINE // operand.bits
    box = (rows // together, line) if major is Major.K else (line // together, line)
    return nvb.TensorMap(operand, box=(*[1] * batched, *box))


def map_of_a(
    consumers: int,
    columns: int,
    cluster: int,
    operand: nvb.ElementType,
    batched: bool,
    pingpong: bool,
    swapped: bool,
    a_major: Major,
) -> nvb.TensorMap:
    rows, together = (columns, cluster) if swapped else (rows_of(consumers, pingpong), 1)
    return map_of(rows, operand, batched, a_major, together)


def map_of_b(
    consumers: int,
    columns: int,
    cluster: int,
    operand: nvb.ElementType,
    batched: bool,
    pingpong: bool,
    swapped: bool,
    b_major: Major,
) -> nvb.TensorMap:
    return map_of_a(consumers, columns, cluster, operand, batched, pingpong, not swapped, b_major)


def box_of_c(columns: int, result: nvb.ElementType) -> int:
    """Columns of C that are stored as a line: 128 bytes, or 64 or 32 where these do not divide a row of a tile."""
    return math.gcd(columns * result.bits, LINE) // result.bits


def map_of_c(columns: int, parts: int, result: nvb.ElementType, batched: bool, swapped: bool) -> nvb.TensorMap:
    rows, across = (columns // parts, WARPGROUP_ROWS) if swapped else (WARPGROUP_ROWS, columns)
    line = box_of_c(across, result)
    return nvb.TensorMap(result, box=(*[1] * batched, rows, line), swizzle=line * result.bits // 8)


A = Annotated[nvb.TensorMap, map_of_a]
B = Annotated[nvb.TensorMap, map_of_b]
C = Annotated[nvb.TensorMap, map_of_c]
Extent = Annotated[i32, nvb.Scalar(i32, minimum=1)]
Place = tuple[list[nvb.Value], nvb.Value, nvb.Value]
"""The matrix of a batch, if there is one, and the first row and column of a tile."""
Finish = Callable[[nvb.Accumulator, nvb.Operand, Place], "nvb.Accumulator | nvb.TileValues"]
"""What is stored of a tile: of the accumulator, of which a warpgroup has 64 rows of the tile, which begins there."""


def tiles_of(
    k: nvb.KernelBuilder, count: nvb.Value, consumer: nvb.Operand = 0, consumers: int = 1
) -> AbstractContextManager[nvb.Value]:
    """The tiles of this cluster, or those that one of so many consumers multiplies in its turns."""
    clusters = k.cluster.count()
    return k.range(k.cluster.id() + consumer * clusters, count, clusters * consumers, name="tile")


def overlap(k: nvb.KernelBuilder) -> None:
    """Let the next launch start beside this one, and wait for the ones before, whose results may be loaded."""
    k.griddepcontrol("launch_dependents")
    k.griddepcontrol("wait")


def begin(k: nvb.KernelBuilder, tile: nvb.Value, extent: int, end: nvb.Value) -> nvb.Value:
    """Where a tile begins: the last one where it ends with the matrix, so some elements are computed twice.

    TMA takes longer for rows outside of a matrix, which it fills with zeros, than for rows inside (H200).
    """
    return k.math.max(k.math.min(tile * extent, end - extent), 0)


def sums_of(operand: nvb.ElementType) -> nvb.ElementType:
    """The type in which products are added."""
    return s32 if operand.is_integer else f32


def mma_of(k: nvb.KernelBuilder, operand: nvb.ElementType, columns: int, rows: int) -> Any:
    """A warpgroup for each 64 rows of a tile."""
    shape = f"m{WARPGROUP_ROWS}n{columns}k{INSTRUCTION // operand.bits}"
    instruction = nvb.wgmma.mma_async(shape, operand, operand, sums_of(operand))
    return k.tiled_mma(instruction, warpgroups=(rows // WARPGROUP_ROWS, 1))


def load(k: nvb.KernelBuilder, ring: Any, left: Any, right: Any, place: Place, steps: nvb.Value, depth: int) -> None:
    """Load so many steps of a tile of the left operand, and the cluster's tile of the right one."""
    batch, row, column = place
    with k.range(steps) as step, ring.fill() as stage:
        k.tma.load(stage.a, left, (*batch, row, step * depth), stage.full)
        k.tma.load(stage.b, right, (*batch, column, step * depth), stage.full, multicast=True)


def multiply(
    k: nvb.KernelBuilder, mma: Any, ring: Any, acc: nvb.Accumulator, steps: nvb.Value, warpgroup: nvb.Operand, tail: int
) -> None:
    """Sum the products of so many steps, of the last one those of the first `tail` instructions if that is not 0."""
    acc.clear()
    with k.range(steps - 1 if tail else steps), ring.drain(in_flight=1) as stage, k.wgmma.group(in_flight=1):
        mma.accumulate(acc, stage.a, stage.b, warpgroup)
    if tail:
        with ring.drain(in_flight=1) as stage, k.wgmma.group(in_flight=1):
            a, b = mma.partition_fragment_A(stage.a, warpgroup), mma.partition_fragment_B(stage.b, warpgroup)
            for issue in list(mma.issues(acc, a, b))[:tail]:
                mma.issue(issue, acc, a, b)


def finished(
    acc: nvb.Accumulator, part: nvb.Operand, result: nvb.ElementType, scale: nvb.Value | None
) -> nvb.Accumulator | nvb.TileValues:
    """What the epilogue stores: sums of integers stop at the ends of a result, as those of cuBLASLt and CUTLASS do."""
    if scale is not None:
        return acc.elements(part) * scale
    return acc.elements(part).to(result, saturate=True) if result.is_integer and result is not s32 else acc


def products(
    k: nvb.KernelBuilder,
    maps: Sequence[nvb.TensorMapParameter],
    batches: nvb.Value,
    extents: tuple[nvb.Value, nvb.Value],
    steps: nvb.Value,
    one: Wide,
    finish: Finish,
) -> None:
    """What a CTA does: tile after tile the products of A and B, and what `finish` makes of them to C, by the maps.

    `extents` are M and N. `finish` gets the sums, which 64 rows of the tile they are, and where the tile begins.
    """
    (a, b, c), (m, n) = maps, extents
    left, right, height, width = (b, a, n, m) if one.swapped else (a, b, m, n)
    majors = (one.b_major, one.a_major) if one.swapped else (one.a_major, one.b_major)
    rows, columns, depth, consumers, cluster = one.rows, one.columns, one.depth, one.consumers, one.cluster
    mma = mma_of(k, one.operand, columns, rows)
    tiles = {"a": mma.smem_a(depth, majors[0]), "b": mma.smem_b(depth, majors[1])}
    ring = k.pipeline(one.stages, consumers, **tiles, multicast=True, pingpong=one.pingpong)
    output = k.tma_epilogue(c, columns, consumers, parts=one.parts, transposed=one.swapped)
    k.tma.prefetch_maps(a, b, c)
    k.mbarrier.ready()
    bands, tiles_across = (height + rows * cluster - 1) // (rows * cluster), (width + columns - 1) // columns
    each = bands * tiles_across
    count = batches * each if one.batched else each

    def place(tile: nvb.Value) -> Place:
        number = tile % each if one.batched else tile
        band, across = k.grouped(number, bands, tiles_across, max(1, one.group // cluster))
        along = band * cluster + k.cluster.rank()
        return [tile // each] * one.batched, begin(k, along, rows, height), begin(k, across, columns, width)

    with k.producer(registers=PRODUCER_REGISTERS):
        overlap(k)
        with tiles_of(k, count) as tile:
            load(k, ring, left, right, place(tile), steps, depth)
        ring.finish()

    with k.consumers(registers=REGISTERS[consumers]) as warpgroup:
        acc = mma.accumulator()
        part, own = (0, (warpgroup, consumers)) if one.pingpong else (warpgroup, ())
        with tiles_of(k, count, *own) as tile:
            with ring.turn(warpgroup) if one.pingpong else nullcontext():
                multiply(k, mma, ring, acc, steps, part, one.tail)
            batch, row, column = at = place(tile)
            row += part * WARPGROUP_ROWS
            reserved = output.reserve((*batch, *((column, row) if one.swapped else (row, column))), warpgroup)
            k.wgmma.wait_group(0, drains=[acc])
            ring.release()
            reserved.store(finish(acc, part, at))
        output.finish()


@nvb.kernel("sm_90a", threads=lambda consumers: 128 * (1 + consumers), cluster=lambda cluster: cluster, min_ctas=1)
def wide(
    k: nvb.KernelBuilder,
    a: A,
    b: B,
    c: C,
    scale: f32,
    batches: i32,
    m: Extent,
    n: Extent,
    steps: i32,
    *,
    operand: nvb.ElementType = f16,
    result: nvb.ElementType = f16,
    batched: bool = False,
    columns: int = 256,
    consumers: int = 2,
    cluster: int = 2,
    stages: int = 3,
    group: int = 16,
    parts: int = 1,
    tail: int = 0,
    pingpong: bool = False,
    swapped: bool = False,
    a_major: Major = Major.K,
    b_major: Major = Major.K,
) -> None:
    """`group` rows of tiles go together; `scale` is that of 8-bit floats. `swapped`, rows of a tile are those of B."""
    tile = Wide(columns, consumers, cluster, stages, parts, operand, result, batched, tail, group)
    one = replace(tile, pingpong=pingpong, swapped=swapped, a_major=a_major, b_major=b_major)
    factor = scale if operand.bits == 8 and sums_of(operand) is f32 else None
    products(k, (a, b, c), batches, (m, n), steps, one, lambda acc, part, _: finished(acc, part, result, factor))


@dataclass(frozen=True)
class Wide(Tiled):
    """A choice of the constants."""

    columns: int = 256
    consumers: int = 2
    cluster: int = 2
    stages: int = 3
    parts: int = 1
    operand: nvb.ElementType = f16
    result: nvb.ElementType = f16
    batched: bool = False
    tail: int = 0
    group: int = 16
    pingpong: bool = False
    swapped: bool = False
    a_major: Major = Major.K
    b_major: Major = Major.K

    def __post_init__(self) -> None:
        among(REGISTERS, consumers=self.consumers)
        among(range(LINE // INSTRUCTION), tail=self.tail)
        stored(self.operand, (self.a_major, self.b_major), self.columns if self.right_major is Major.MN else 0)
        positive(columns=self.columns, cluster=self.cluster, stages=self.stages, parts=self.parts, group=self.group)

    @property
    def right_major(self) -> Major:
        """How the right operand is stored."""
        return self.a_major if self.swapped else self.b_major

    @property
    def label(self) -> str:
        """The tile and its order, in words."""
        cluster = f", cluster of {self.cluster}" if self.cluster > 1 else ""
        turns = ", in turns" if self.pingpong else ""
        tile = f"{self.rows} x {self.columns}{' of C^T' if self.swapped else ''}{turns}{cluster}"
        return f"{tile}, {self.stages} stages, {self.group} rows at a time"

    @property
    def rows(self) -> int:
        """Rows of a tile."""
        return rows_of(self.consumers, self.pingpong)

    @property
    def depth(self) -> int:
        """Columns of A and B that a step multiplies."""
        return LINE // self.operand.bits

    @property
    def kernel(self) -> nvb.KernelDefinition:
        return wide.with_(**vars(self))

    def for_depth(self, depth: int) -> Wide:
        """The same, with a tail where the last step is not full."""
        instructions = -(-depth * self.operand.bits // INSTRUCTION)
        return replace(self, tail=instructions % (LINE // INSTRUCTION))

    def launch_of(
        self, m: int, n: int, depth: int, multiprocessors: int, *, batches: int = 1, scale: float = 1.0
    ) -> tuple[int, tuple[float, ...]]:
        """The grid and the last arguments: no more CTAs than there are tiles, or multiprocessors.

        Raises ValueError where the kernel is not for this depth, or has no place for the scale.
        """
        if 0 < self.tail < (self.for_depth(depth).tail or LINE // INSTRUCTION):
            raise ValueError(f"the last step of K = {depth} is longer than this kernel's: use for_depth({depth})")
        scaled(self.operand, scale)
        grid = min(batches * math.prod(self.tiles(m, n)), multiprocessors // self.cluster * self.cluster)
        return grid, (scale, batches, m, n, -(-depth // self.depth))
