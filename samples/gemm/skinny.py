"""For few rows of A or of B, of any length: each row lies in shared memory at the place modulo 16 bytes that it has.

So cp.async copies whole words of 16 bytes, whatever K is: those that a row has a part of. A word has the end of the row
before it too, which nobody reads, and no more than the row's end is read, after which there are zeros. A thread loads
words of 4 bytes that are neighbors in a row, shifts them to where its elements begin, and multiplies by mma.sync: for
the sum over K any order of its elements does, if it is the same in A and in B.
The warps of a CTA and the CTAs of a cluster may share the depth; they add their sums through shared memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Annotated, Any

import nvbackend as nvb
from nvbackend import e4m3, e5m2, f16, f32, i32, i64, u8, u16, u32
from samples.gemm.checks import among, placed, positive, scaled
from samples.gemm.deep import converted
from samples.gemm.tiles import Tiled
from samples.gemm.unaligned import TMA, WIDTHS, WORD, Depth, Place, width_of
from samples.gemm.wide import INSTRUCTION, Extent, overlap, sums_of

WARPS, THREADS = 4, 128
ROWS, COLUMNS = 16, 8
"""Of an mma.sync: a thread has words of two rows of its left operand, eight apart, and of one of its right one."""
APART = 8
QUAD = 4
"""Words that a thread copies at once, that it multiplies of a row in two instructions, and sums that it adds."""
CHUNK = 16
"""Words of a row that the four threads multiply in two instructions."""
BANKS = 32
LINES = (64, 32)
"""Words of a row that a step multiplies; 32 where rows of single bytes would not begin alike."""
FREE = {1: 16, 2: 16, 4: 4, 8: 8, TMA: 16}
"""What is left of a row's words after whole rounds of the banks, by the bytes of which rows are multiples: with it the
eight rows that a warp loads from meet each bank once, as rows begin at different words of 16 bytes."""
PADDING = 4
"""Sums that a column has more than rows: no bank conflicts."""
IDENTITY, NEXT = 0x3210, 0x1111
"""Bytes of two words that make one: those of the first, and how much more for each byte that it is shifted by."""

Load = Callable[[int, int], list[nvb.Value]]
"""The words of a thread, by the row after its first one and the word of its warp."""


def pointer_to(operand: nvb.ElementType) -> nvb.Pointer:
    return nvb.Pointer(operand)


def pointer_to_c(result: nvb.ElementType) -> nvb.Pointer:
    return nvb.Pointer(result)


Operand = Annotated[nvb.Pointer, pointer_to]
C = Annotated[nvb.Pointer, pointer_to_c]


def pitch_of(line: int, width: int) -> int:
    """Words from a row to the next in shared memory: those of a stage, those that a row begins in, and what is free."""
    least = line + (QUAD if width < TMA else 0)
    return least + (FREE[width] - least) % BANKS


def rows_of(rows: int, line: int) -> int:
    """Rows in shared memory: as many as all threads copy together, or a multiple."""
    together = THREADS * QUAD // line
    return -(-rows // together) * together


class Rows:
    """`rows` rows of A or B from `first` on, which is a multiple of 16, as far as there are `count`."""

    def __init__(
        self,
        k: nvb.KernelBuilder,
        matrix: nvb.Address,
        first: nvb.Value,
        rows: int,
        count: nvb.Value,
        depth: nvb.Value,
        line: int,
        width: int,
    ) -> None:
        self._k, self._matrix, self._first, self._rows, self._width = k, matrix, first, rows, width
        self._count, self._end = count, k.math.min(count, first + rows)
        self._bytes, self._line, self._pitch = depth * (matrix.element.bits // 8), line, pitch_of(line, width)
        quads = line // QUAD
        self._apart = THREADS // quads
        thread = k.thread_id()
        self._row, self._quad = thread // quads, thread % quads
        self._begin, self._left = self._place(self._row, self._quad)
        self._ends = (
            [self._place(thread + below, k.const(quads, i32)) for below in range(0, rows, THREADS)]
            if width < TMA
            else []
        )

    def _shift(self, row: nvb.Value) -> nvb.Value:
        """How many bytes after a word of 16 bytes a row begins."""
        return (row * self._bytes) & (TMA - 1)

    def _place(self, row: nvb.Value, quad: nvb.Value) -> tuple[nvb.Value, nvb.Value]:
        """Where in the matrix 16 bytes of a row are, those of the first step, and how many bytes are up to its end."""
        begin = (self._k.integer.mul_wide(self._first + row, self._bytes) & -TMA) + (quad * TMA).to(i64)
        return begin, self._bytes + self._shift(row) - quad * TMA

    def copy(self, step: nvb.Value, stage: nvb.Address) -> None:
        """Start to copy the words that a step multiplies."""
        k, done = self._k, step * (WORD * self._line)
        for number, (begin, left) in enumerate(self._ends):
            row = k.thread_id() + THREADS * number
            with k.if_(row < self._rows):
                self._copy(begin + done.to(i64), stage, row, k.const(self._line // QUAD, i32), left - done)
        with k.if_(done + WORD * self._line <= self._bytes):
            self._copy_rows(done, stage, None)
        with k.else_():
            self._copy_rows(done, stage, self._left - done)
        if self._width < TMA:
            self._copy_end(done, stage)

    def _copy_end(self, done: nvb.Value, stage: nvb.Address) -> None:
        """The last bytes of the matrix, fewer than 16, by elements, and zeros after them.

        compute-sanitizer takes a cp.async of fewer bytes for one of 16, which would read what is after the matrix.
        """
        k, kind = self._k, {8: u8, 16: u16, 32: u32}[self._matrix.element.bits]
        size, row, number = kind.bits // 8, self._count - 1 - self._first, k.thread_id()
        up_to = self._bytes + self._shift(row)
        quad, left = (up_to - done) // TMA, up_to % TMA
        is_here = (row >= 0) & (row < self._rows) & (up_to >= done) & (quad <= self._line // QUAD) & (left > 0)
        with k.if_(is_here & (number < TMA // size)):
            begin = k.integer.mul_wide(self._first + row, self._bytes) + (self._bytes - left).to(i64)
            source = self._matrix.byte_offset(begin, align=size).cast(kind)
            value = (source + number).load(where=number * size < left)[0]
            (stage + (row * self._pitch + quad * QUAD)).cast(kind)[number] = value

    def _copy_rows(self, done: nvb.Value, stage: nvb.Address, left: nvb.Value | None) -> None:
        """They begin alike: those that a thread copies are as far apart."""
        first = self._begin + done.to(i64)
        for below in range(0, rows_of(self._rows, self._line), self._apart):
            begin = self._k.integer.mad_wide(self._bytes, below, first) if below else first
            self._copy(begin, stage, self._row + below, self._quad, left)

    def _copy(
        self, begin: nvb.Value, stage: nvb.Address, row: nvb.Value, quad: nvb.Value, left: nvb.Value | None
    ) -> None:
        """16 bytes of a row, or as many as are left of it; zeros of a row that is not there."""
        k, outside = self._k, self._first + row >= self._end
        is_end = self._first + row == self._count - 1
        place, source = stage + (row * self._pitch + quad * QUAD), self._matrix.byte_offset(begin, align=TMA)
        if left is None:
            k.cp_async.copy(place, source, TMA, cache="cg", ignore=outside)
        else:
            inside = k.select(outside, 0, k.math.max(k.math.min(left, TMA), 0))
            with k.if_(~(is_end & (left > 0) & (left < TMA))) if self._width < TMA else nullcontext():
                k.cp_async.copy(place, source, TMA, cache="cg", read_bytes=inside)

    def loads(self, stage: nvb.Address, row: nvb.Operand, word: nvb.Operand) -> Load:
        """The loads of a thread whose first row and word these are: of each row four words, shifted."""
        k, width = self._k, self._width
        first = k.thread_id() % 32 // QUAD
        shifts = [self._shift(first + down) for down in ((0, APART) if width == 1 else (0,))]
        own = (row + first) * self._pitch + (word + k.thread_id() % QUAD * QUAD)
        together = max(width // WORD, 1)
        align = WORD * together
        begins = [stage.byte_offset((own + (shift >> 2)) * WORD, align=align) for shift in shifts]
        selectors = [((shift & (WORD - 1)) * NEXT + IDENTITY).to(u32) for shift in shifts]

        def load(down: int, right: int) -> list[nvb.Value]:
            begin = begins[down // APART % len(begins)] + (down * self._pitch + right)
            if width >= WORD:
                return [word for at in range(0, QUAD, together) for word in (begin + at).load(together)]
            words = [(begin + at).load()[0] for at in range(QUAD + 1)]
            selector = selectors[down // APART % len(begins)]
            return [k.math.permute_bytes(low, high, selector) for low, high in pairwise(words)]

        return load


def multiplied(operand: nvb.ElementType) -> nvb.ElementType:
    """What mma.sync multiplies: Hopper has none of 8-bit floats."""
    return f16 if operand in (e4m3, e5m2) else operand


def widened(k: nvb.KernelBuilder, words: Sequence[nvb.Value], operand: nvb.ElementType) -> Sequence[nvb.Value]:
    """Words of what is multiplied: two for each of 8-bit floats."""
    if multiplied(operand) is operand:
        return words
    halves = [half.to(u16) for word in words for half in (word, word >> 16)]
    return [k.convert.pair(half, f"{operand}x2", "f16x2") for half in halves]


def accumulators(k: nvb.KernelBuilder, rows: int, columns: int, element: nvb.ElementType) -> list[list[Any]]:
    """A thread's sums of a warp's part of a tile: four of each 16 x 8."""
    fours = [[k.var(0, element, name="sum") for _ in range(QUAD)] for _ in range(rows // ROWS * columns // COLUMNS)]
    across = columns // COLUMNS
    return [fours[first : first + across] for first in range(0, len(fours), across)]


def multiply(
    k: nvb.KernelBuilder, operand: nvb.ElementType, acc: Sequence[Sequence[Any]], left: Load, right: Load, words: int
) -> None:
    """Add the products of so many words of each row."""
    element = multiplied(operand)
    request = nvb.mma.sync(f"m16n8k{INSTRUCTION // element.bits}", element, element, sums_of(operand))
    for word in range(0, words, CHUNK):
        b = [widened(k, right(COLUMNS * column, word), operand) for column in range(len(acc[0]))]
        for row, sums in enumerate(acc):
            both = left(ROWS * row, word), left(ROWS * row + APART, word)
            upper, lower = (widened(k, each, operand) for each in both)
            for half in range(0, len(upper), 2):
                a = [of[half + each] for each in range(2) for of in (upper, lower)]
                for of_column, four in zip(b, sums, strict=True):
                    products = k.mma.sync(request, a, of_column[half : half + 2], [each.value for each in four])
                    for each, value in zip(four, products, strict=True):
                        each.set(value)


def leave(k: nvb.KernelBuilder, acc: Sequence[Sequence[Any]], place: nvb.Address, pitch: int) -> None:
    """Store a warp's sums for all CTAs of the cluster, column by column, of which it has a part from `place` on."""
    lane = k.thread_id() % 32
    own = place + (lane % QUAD * 2 * pitch + lane // QUAD)
    for down, beside in enumerate(acc):
        for over, four in enumerate(beside):
            for each, total in enumerate(four):
                (own + ((COLUMNS * over + each % 2) * pitch + ROWS * down + each // 2 * APART)).store(total.value)


def quads(k: nvb.KernelBuilder, share: int, rank: nvb.Value, rows: int) -> list[tuple[nvb.Value, nvb.Value, nvb.Value]]:
    """Row and column of each four sums that a thread adds, of the `share` of its CTA, and whether it is one of its own.

    Threads that have none of a turn add the last ones again.
    """
    indices = [QUAD * (k.thread_id() + first) for first in range(0, -(-share // QUAD), THREADS)]
    places = [rank * share + k.math.min(index, share - QUAD) for index in indices]
    return [(place % rows, place // rows, index < share) for place, index in zip(places, indices, strict=True)]


def added(k: nvb.KernelBuilder, place: nvb.Address, apart: int, along: int, split: int) -> list[nvb.Value]:
    """Four sums from `place` on, over the parts of all warps and CTAs that share the depth."""
    everyone = [k.cluster.map_shared_rank(place, rank) for rank in range(split)] if split > 1 else [place]
    parts = [(each + of * apart).load(QUAD) for each in everyone for of in range(along)]
    return [sum(four[1:], four[0]) for four in zip(*parts, strict=True)]


def store(
    k: nvb.KernelBuilder,
    c: nvb.Address,
    values: Sequence[nvb.Value],
    own: nvb.Value,
    first: Place,
    end: Place,
    n: nvb.Value,
    *,
    swapped: bool,
) -> None:
    """Store a thread's own neighbors of a column from `first` on that are before `end`. `swapped`, it is one of C^T."""
    (row, column), (height, across) = first, end
    for down, value in enumerate(values):
        with k.if_(own & (row + down < height) & (column < across)):
            (c + (column * n + (row + down) if swapped else (row + down) * n + column)).store(value)


@nvb.kernel("sm_90a", threads=THREADS, cluster=lambda split: split, min_ctas=lambda ctas: ctas)
def skinny(
    k: nvb.KernelBuilder,
    a: Operand,
    b: Operand,
    c: C,
    scale: f32,
    m: Extent,
    n: Extent,
    depth: Depth,
    *,
    operand: nvb.ElementType = f16,
    result: nvb.ElementType = f16,
    width: int = 2,
    rows: int = 64,
    columns: int = 16,
    line: int = 64,
    along: int = 4,
    split: int = 4,
    stages: int = 3,
    ctas: int = 2,  # noqa: ARG001 (`min_ctas` has it)
    swapped: bool = False,
) -> None:
    """A tile has `rows` rows of A, of B if `swapped`; `along` warps share a step, `split` CTAs the steps, in turns."""
    left, right, height, across = (b, a, n, m) if swapped else (a, b, m, n)
    of_left, of_right = ((u32, rows_of(each, line) * pitch_of(line, width)) for each in (rows, columns))
    ring = k.pipeline(stages, copies="cp.async", left=of_left, right=of_right)
    pitch = rows + PADDING
    sums = k.shared(sums_of(operand), along * columns * pitch, align=TMA, name="sums")
    overlap(k)
    bands, rank = (height + (rows - 1)) // rows, k.cluster.rank()
    row, column = k.cluster.id() % bands * rows, k.cluster.id() // bands * columns
    lefts = Rows(k, left, row, rows, height, depth, line, width)
    rights = Rows(k, right, column, columns, across, depth, line, width)
    downward = rows * along // WARPS
    band, part = k.warp_id() % (WARPS // along) * downward, k.warp_id() // (WARPS // along)
    words = line // along
    acc = accumulators(k, downward, columns, sums_of(operand))

    def fetch(step: nvb.Value, stage: Any) -> None:
        lefts.copy(rank + step * split, stage.left)
        rights.copy(rank + step * split, stage.right)

    in_step = line * WORD * 8 // operand.bits
    steps = (depth + (in_step - 1)) // in_step
    with ring.steps((steps - rank + (split - 1)) // split, fetch) as (_, stage):
        ours = lefts.loads(stage.left, band, part * words), rights.loads(stage.right, 0, part * words)
        multiply(k, operand, acc, *ours, words)

    leave(k, acc, sums + (part * columns * pitch + band), pitch)
    k.cluster.sync()
    share, factor = columns * rows // split, scale if multiplied(operand) is not operand else None
    own = quads(k, share, rank, rows)
    parts = columns * pitch, along, split
    totals = [converted(added(k, sums + (j * pitch + i), *parts), result, factor) for i, j, _ in own]
    if split > 1:
        k.cluster.arrive()  # no CTA ends while another one reads its sums
    for (i, j, mine), values in zip(own, totals, strict=True):
        store(k, c, values, mine, (row + i, column + j), (height, across), n, swapped=swapped)
    if split > 1:
        k.cluster.wait()


@dataclass(frozen=True)
class Skinny(Tiled):
    """A choice of the constants."""

    rows: int = 64
    columns: int = 16
    line: int = 64
    along: int = 4
    split: int = 4
    stages: int = 3
    ctas: int = 2
    width: int = 2
    operand: nvb.ElementType = f16
    result: nvb.ElementType = f16
    swapped: bool = False

    def __post_init__(self) -> None:
        among((1, 2, 4), along=self.along)
        among([width for width in WIDTHS if width * 8 >= self.operand.bits], width=self.width)
        among([line for line in LINES if line <= BANKS * self.width], line=self.line)
        positive(rows=self.rows, columns=self.columns, split=self.split, stages=self.stages, ctas=self.ctas)
        if self.rows * self.along % (WARPS * ROWS) or self.columns % COLUMNS or self.line % (CHUNK * self.along):
            shape = f"{self.rows} x {self.columns} in steps of {self.line} words"
            raise ValueError(f"{WARPS} warps, {self.along} along the depth, have no equal parts of {shape}")
        if self.rows * self.columns % (QUAD * self.split):
            raise ValueError(f"{self.split} CTAs cannot add equal parts of {self.rows} x {self.columns} sums")

    @property
    def label(self) -> str:
        """The tile and how the depth is shared, in words."""
        tile = f"{self.rows} x {self.columns}{' of C^T' if self.swapped else ''} by mma.sync"
        split = f"depth shared by {self.split} CTAs and {self.along} warps"
        return f"{tile}, {split}, {self.stages} stages of {self.line} words, {self.ctas} a multiprocessor"

    @property
    def depth(self) -> int:
        """Columns of A and B that a step multiplies."""
        return self.line * WORD * 8 // self.operand.bits

    @property
    def stage(self) -> int:
        """Bytes of a stage."""
        lines = sum(rows_of(each, self.line) for each in (self.rows, self.columns))
        return WORD * lines * pitch_of(self.line, self.width)

    @property
    def sums(self) -> int:
        """Bytes of the sums that warps and CTAs add."""
        return WORD * self.along * self.columns * (self.rows + PADDING)

    @property
    def kernel(self) -> nvb.KernelDefinition:
        return skinny.with_(**vars(self))

    def launch_of(
        self, m: int, n: int, depth: int, _multiprocessors: int, *, scale: float = 1.0
    ) -> tuple[int, tuple[float, ...]]:
        """The grid, a cluster for each tile, and the last arguments.

        Raises ValueError where the kernel is not for these rows, for a C of more than 2^31 elements, and for a scale of
        operands other than 8-bit floats.
        """
        if width_of(depth, self.operand) % self.width:
            raise ValueError(f"rows of K = {depth} elements are not multiples of {self.width} bytes")
        placed(m, n)
        scaled(self.operand, scale)
        return prod(self.tiles(m, n)) * self.split, (scale, m, n, depth)
