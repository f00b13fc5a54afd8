"""For any M, N and K: threads copy what TMA cannot, rows that are not multiples of 16 bytes.

K says how the rows of A and B come: by cp.async of 8 or 4 bytes, or where neither is possible by loads of 2 or 1, which
are stored as words. If their rows are multiples of 16 bytes, TMA loads them. Threads store C from their registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from math import gcd, prod
from operator import or_
from typing import Annotated, Any, Literal, NamedTuple

import nvbackend as nvb
from nvbackend import f16, f32, i32, i64, u8, u16, u32
from nvbackend.layout import Layout
from samples.gemm.checks import among, positive, scaled
from samples.gemm.tiles import Tiled
from samples.gemm.wide import LINE, WARPGROUP_ROWS, Extent, finished, load, map_of, mma_of, multiply, overlap, sums_of

TMA, WORD = 16, 4
"""What TMA needs rows to be multiples of, and the least that cp.async copies, in bytes."""
WIDTHS = (1, 2, 4, 8, TMA)
"""What rows of A and B may be multiples of."""
PAIR = 2
"""Neighbors of a row of C that a thread has."""
PATTERN = 8
"""Rows after which the swizzle of a tile is the same again."""
TOGETHER = 20
"""Rows at most of which a thread has copies on their way that need registers: addresses, or what was loaded."""
MOST_BYTES, MOST_COLUMNS = 2**30, 2**23
"""Bytes of a row of A or B, and elements of one of C, so that places in a tile have 32 bits."""
REGISTERS = {(1, 1): (104, 240), (1, 2): (56, 224), (2, 1): (120, 240), (2, 2): (80, 176)}
"""Registers of a thread that loads and of one that multiplies, by the number of their warpgroups."""


def width_of(depth: int, operand: nvb.ElementType) -> int:
    """The bytes, up to what TMA needs, of which rows of so many elements are a multiple."""
    return gcd(depth * operand.bits // 8, TMA)


def source(rows: int, operand: nvb.ElementType, width: int) -> nvb.TensorMap | nvb.Pointer:
    return map_of(rows, operand, batched=False) if width == TMA else nvb.Pointer(operand)


def source_a(consumers: int, columns: int, operand: nvb.ElementType, width: int, swapped: bool) -> Any:
    return source(columns if swapped else WARPGROUP_ROWS * consumers, operand, width)


def source_b(consumers: int, columns: int, operand: nvb.ElementType, width: int, swapped: bool) -> Any:
    return source_a(consumers, columns, operand, width, not swapped)


def pointer_to_c(result: nvb.ElementType) -> nvb.Pointer:
    return nvb.Pointer(result)


def extent_of_c(together: int) -> nvb.Scalar:
    return nvb.Scalar(i32, minimum=together, maximum=MOST_COLUMNS, multiple_of=together)


def extent_of_rows(operand: nvb.ElementType, width: int) -> nvb.Scalar:
    least = width * 8 // operand.bits
    return nvb.Scalar(i32, minimum=least, maximum=MOST_BYTES * 8 // operand.bits, multiple_of=least)


A = Annotated[Any, source_a]
B = Annotated[Any, source_b]
C = Annotated[nvb.Pointer, pointer_to_c]
Columns = Annotated[i32, extent_of_c]
Depth = Annotated[i32, extent_of_rows]
Place = tuple[nvb.Value, nvb.Value]
"""A row and a column."""
Word = tuple[nvb.Address, nvb.Value]
"""What is to be stored, and where."""
Copy = Callable[[nvb.Value, nvb.Address], list[Word]]
"""Copies a piece of a row, by how many bytes it is after that of the first row, to a place in a tile."""
Finish = Callable[[nvb.Accumulator, nvb.Operand, Place], nvb.TileValues]
"""What is stored of a tile: of the accumulator, of which a warpgroup has 64 rows of the tile, which begins there."""
Copies = Callable[[nvb.Value, int], list[Word]]
"""Copies from some of a thread's rows, by the number of the first one."""


class Tiles(NamedTuple):
    """Those of a stage."""

    a: nvb.SharedTile
    b: nvb.SharedTile


class Stages:
    """A ring that all threads of the producers fill: as one of `k.pipeline`, but `full` has an arrival of each thread.

    `is_async`, a thread arrives when its cp.async have completed.
    """

    def __init__(
        self, k: nvb.KernelBuilder, stages: int, producers: int, consumers: int, a: Any, b: Any, *, is_async: bool
    ) -> None:
        self._k, self._count, self._is_async = k, stages, is_async
        self._a, self._b = k.shared_tiles(a, stages, name="a"), k.shared_tiles(b, stages, name="b")
        self._full = k.mbarrier.array(stages, arrivals=128 * producers, name="full")
        self._empty = k.mbarrier.array(stages, arrivals=consumers, name="empty")
        self._turn, self._held = k.var(0, u32, name="turn"), k.var(0, u32, name="held")

    def _tiles(self, place: nvb.Value) -> Tiles:
        return Tiles(self._a.at(place), self._b.at(place))

    @contextmanager
    def fill(self) -> Iterator[Tiles]:
        """Wait until the next stage is empty, and arrive when the thread has filled its part."""
        k, turn = self._k, self._turn.value
        place = turn % self._count
        k.mbarrier.wait(self._empty + place, (turn // self._count & 1).to(i32) ^ 1)
        yield self._tiles(place)
        if self._is_async:
            k.cp_async.mbarrier_arrive(self._full + place, no_increment=True)
        else:
            k.fence.proxy_async()
            k.mbarrier.arrive(self._full + place)
        self._turn += 1

    @contextmanager
    def drain(self, *, in_flight: Literal[1]) -> Iterator[Tiles]:
        """Wait until the next stage is full; after the block the one before it is given back, whose mma are done."""
        k, turn = self._k, self._turn.value
        place = turn % self._count
        k.mbarrier.wait(self._full + place, (turn // self._count & 1).to(i32))
        if self._is_async:
            k.fence.proxy_async()  # cp.async writes as loads and stores do, and wgmma reads as TMA does
        yield self._tiles(place)
        self._give_back(turn - 1)
        self._held.set(in_flight)
        self._turn += 1

    def release(self) -> None:
        """Give back the last stage."""
        self._give_back(self._turn - 1)
        self._held.set(0)

    def _give_back(self, turn: nvb.Value) -> None:
        k = self._k
        k.mbarrier.arrive(self._empty + turn % self._count, when=(k.thread_id() % 128 == 0) & (self._held != 0))


class Rows:
    """A thread's part of the rows of A or B, which have `depth` elements and are multiples of `width` bytes.

    After the last row it is that one again: nothing outside of the matrix is read, and no sums of such rows are stored.
    The threads of a row have its pieces of as many bytes as a copy has, side by side.
    """

    def __init__(
        self, k: nvb.KernelBuilder, matrix: nvb.Address, count: nvb.Value, depth: nvb.Value, width: int, threads: int
    ) -> None:
        self._k, self._matrix, self._count, self._depth, self._width = k, matrix, count, depth, width
        self._size = max(width, WORD)
        pieces = LINE // 8 // self._size
        thread = k.thread_id()
        self._row, self._apart = thread // pieces, threads // pieces
        self._elements = self._size * 8 // matrix.element.bits
        self._column = thread % pieces * self._elements
        self._line = depth * (matrix.element.bits // 8)

    def turns(self, tile: nvb.SharedTile) -> int:
        """How many rows of a tile the thread has a piece of."""
        return tile.layout.rows // self._apart

    def is_whole(self, turns: int) -> bool:
        """Whether what so many turns fill is as long as the pattern in which a tile lies: the next ones lie alike."""
        return turns * self._apart % PATTERN == 0

    def copies(self, tile: nvb.SharedTile, first: nvb.Value, column: nvb.Value) -> Copies:
        """Those of the elements from the row `first` and the column on, and of zeros after the last column."""
        k, own = self._k, column + self._column
        places = {each: tile.at(self._row + each, self._column) for each in range(0, PATTERN, self._apart)}
        copy = self._by_cp_async(own) if self._width >= WORD else self._by_loads(own)

        def started(turn: nvb.Value, count: int) -> list[Word]:
            down, words = turn * self._apart, list[Word]()
            for below in range(0, count * self._apart, self._apart):
                line = k.math.min(first + self._row + (down + below), self._count - 1)
                same = (down + below // PATTERN * PATTERN) * (LINE // 8)
                place = places[below % PATTERN].byte_offset(same, align=self._size)
                words += copy(k.integer.mul_wide(line, self._line), place)
            return words

        return started

    def _by_cp_async(self, column: nvb.Value) -> Copy:
        """All of a piece are inside of a row, or none."""
        first = self._matrix + self._k.math.min(column, self._depth - self._elements)
        outside = column >= self._depth

        def copy(line: nvb.Value, place: nvb.Address) -> list[Word]:
            self._k.cp_async.copy(place, first.byte_offset(line, align=self._width), self._size, ignore=outside)
            return []

        return copy

    def _by_loads(self, column: nvb.Value) -> Copy:
        """Of as much as the rows are multiples of, for words that are stored."""
        k, width = self._k, self._width
        part, unit = {1: u8, 2: u16}[width], width * 8 // self._matrix.element.bits
        columns = [column + unit * each for each in range(WORD // width)]
        firsts = [(self._matrix + k.math.min(each, self._depth - unit)).cast(part) for each in columns]
        bits = [k.const((1 << part.bits) - 1 << part.bits * each, u32) for each in range(len(columns))]
        inside = reduce(or_, [k.select(at < self._depth, own, 0) for at, own in zip(columns, bits, strict=True)])

        def copy(line: nvb.Value, place: nvb.Address) -> list[Word]:
            loaded = [first.byte_offset(line, align=width).load()[0].to(u32) for first in firsts]
            word = reduce(or_, [value << part.bits * each for each, value in enumerate(loaded)])
            return [(place.cast(u32), word & inside)]

        return copy


def fill(k: nvb.KernelBuilder, left: Rows, right: Rows, stage: Tiles, place: Place, column: nvb.Value) -> None:
    """Fill a stage. Some rows of either operand are on their way together: loads come before stores, which wait.

    It is a loop of two rounds at least: LLVM would compute the addresses of a single one before the first step, and
    there are no registers to keep so many.
    """
    turns = left.turns(stage.a), right.turns(stage.b)
    equal = [each for each in range(2, sum(turns)) if gcd(each, *turns) == each]
    equal = [each for each in equal if left.is_whole(turns[0] // each) and right.is_whole(turns[1] // each)]
    rounds = next((each for each in equal if sum(turns) <= TOGETHER * each), 1)
    counts = [each // rounds for each in turns]
    copies = left.copies(stage.a, place[0], column), right.copies(stage.b, place[1], column)
    with k.range(rounds, unroll=False) as number:
        words = [started(number * count, count) for started, count in zip(copies, counts, strict=True)]
        for to, word in chain(*words):
            to.store(word)


def producer(
    k: nvb.KernelBuilder,
    ring: Any,
    operands: Sequence[Any],
    extents: Sequence[nvb.Value],
    depth: nvb.Value,
    steps: nvb.Value,
    in_step: int,
    width: int,
    threads: int,
) -> Callable[[Place], None]:
    """What loads all steps of a tile of both operands: by TMA, or each thread copies its part of the rows."""
    if width == TMA:
        return lambda place: load(k, ring, operands[0], operands[1], ([], *place), steps, in_step)
    left, right = (Rows(k, one, count, depth, width, threads) for one, count in zip(operands, extents, strict=True))

    def copy(place: Place) -> None:
        with k.range(steps) as step, ring.fill() as stage:
            fill(k, left, right, stage, place, step * in_step)

    return copy


def store(
    k: nvb.KernelBuilder,
    values: nvb.TileValues,
    c: nvb.Address,
    shape: tuple[int, int],
    first: Place,
    end: Place,
    n: nvb.Value,
    *,
    swapped: bool,
) -> None:
    """Store what of a tile from `first` on is before `end`. `swapped`, rows and columns are those of C^T."""
    (row, column), (height, across) = first, end
    i, j = (column, row) if swapped else first
    tile = k.tensor(c + (i.to(i64) * n.to(i64) + j.to(i64)), Layout(shape, (1, n) if swapped else (n, 1)))
    values.store(tile, where=k.identity_tensor(shape).below(height - row, across - column))


def products(
    k: nvb.KernelBuilder,
    matrices: Sequence[Any],
    extents: tuple[nvb.Value, nvb.Value],
    depth: nvb.Value,
    one: Unaligned,
    finish: Finish,
) -> None:
    """What a CTA does: tile after tile the products of A and B, and what `finish` makes of them to C.

    `extents` are M and N. `finish` gets the sums, which 64 rows of the tile they are, and where the tile begins.
    """
    (a, b, c), (m, n) = matrices, extents
    left, right, height, across = (b, a, n, m) if one.swapped else (a, b, m, n)
    rows, columns, width, producers, in_step = one.rows, one.columns, one.width, one.producers, one.depth
    mma = mma_of(k, one.operand, columns, rows)
    tiles = {"a": mma.smem_a(in_step), "b": mma.smem_b(in_step)}
    if width == TMA:
        ring = k.pipeline(one.stages, one.consumers, **tiles)
        k.tma.prefetch_maps(a, b)
    else:
        ring = Stages(k, one.stages, producers, one.consumers, **tiles, is_async=width >= WORD)
    k.mbarrier.ready()
    steps = (depth + (in_step - 1)) // in_step
    bands, tiles_across = (height + rows - 1) // rows, (across + columns - 1) // columns
    of_producer, of_consumer = REGISTERS[producers, one.consumers]
    mine = lambda: k.range(k.block_id(), bands * tiles_across, k.block_count(), name="tile")  # noqa: E731

    def place(tile: nvb.Value) -> Place:
        band, beside = k.grouped(tile, bands, tiles_across, one.group)
        return band * rows, beside * columns

    with k.if_(k.warpgroup_id() < producers):
        k.setmaxnreg.dec(of_producer)
        sides = (left, right), (height, across)
        fetch = producer(k, ring, *sides, depth, steps, in_step, width, 128 * producers)
        with k.one_thread() if width == TMA else nullcontext():
            overlap(k)
            with mine() as tile:
                fetch(place(tile))

    with k.else_():
        k.setmaxnreg.inc(of_consumer)
        acc, part = mma.accumulator(), k.warpgroup_id() - producers
        with mine() as tile:
            multiply(k, mma, ring, acc, steps, part, 0)
            k.wgmma.wait_group(0, drains=[acc])
            ring.release()
            first = place(tile)
            store(k, finish(acc, part, first), c, (rows, columns), first, (height, across), n, swapped=one.swapped)


@nvb.kernel("sm_90a", threads=lambda producers, consumers: 128 * (producers + consumers), min_ctas=1)
def unaligned(
    k: nvb.KernelBuilder,
    a: A,
    b: B,
    c: C,
    scale: f32,
    m: Extent,
    n: Columns,
    depth: Depth,
    *,
    operand: nvb.ElementType = f16,
    result: nvb.ElementType = f16,
    width: int = 2,
    together: int = 1,
    columns: int = 192,
    producers: int = 2,
    consumers: int = 2,
    stages: int = 5,
    group: int = 16,
    swapped: bool = False,
) -> None:
    """Rows of A and B are multiples of `width` bytes, those of C of `together` elements. The rest is as for `wide`."""
    one = Unaligned(columns, producers, consumers, stages, width, together, operand, result, group, swapped)

    def finish(acc: nvb.Accumulator, part: nvb.Operand, _: Place) -> nvb.TileValues:
        sums = finished(acc, part, result, scale if operand.bits == 8 and sums_of(operand) is f32 else None)
        return acc.elements(part) if isinstance(sums, nvb.Accumulator) else sums

    products(k, (a, b, c), (m, n), depth, one, finish)


@dataclass(frozen=True)
class Unaligned(Tiled):
    """A choice of the constants."""

    columns: int = 192
    producers: int = 2
    consumers: int = 2
    stages: int = 5
    width: int = 2
    together: int = 1
    operand: nvb.ElementType = f16
    result: nvb.ElementType = f16
    group: int = 16
    swapped: bool = False

    def __post_init__(self) -> None:
        among((1,) if self.width == TMA else (1, 2), producers=self.producers)
        among((1, 2), consumers=self.consumers)
        among([width for width in WIDTHS if width * 8 >= self.operand.bits], width=self.width)
        among((1, PAIR), together=self.together)
        positive(columns=self.columns, stages=self.stages, group=self.group)

    @property
    def label(self) -> str:
        """The tile, its order, and how the operands come, in words."""
        tile = f"{self.rows} x {self.columns}{' of C^T' if self.swapped else ''}"
        copies = "by TMA" if self.width == TMA else f"by {self.width} bytes"
        return f"{tile}, loaded {copies}, {self.stages} stages, {self.group} rows at a time"

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
        return unaligned.with_(**vars(self))

    def launch_of(
        self, m: int, n: int, depth: int, multiprocessors: int, *, scale: float = 1.0
    ) -> tuple[int, tuple[float, ...]]:
        """The grid and the last arguments.

        Raises ValueError where the kernel is not for these rows, or for a scale of operands other than 8-bit floats.
        """
        if width_of(depth, self.operand) % self.width or n % self.together:
            rows = f"rows of K = {depth} and N = {n} elements"
            raise ValueError(f"{rows} are not multiples of {self.width} bytes and {self.together} elements")
        scaled(self.operand, scale)
        return min(prod(self.tiles(m, n)), multiprocessors), (scale, m, n, depth)
