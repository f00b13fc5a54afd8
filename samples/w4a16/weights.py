"""Weights of 4 bits: how they are stored, unpacked and multiplied, and how a tile of Y is written.

W is the operand A, from registers: a thread unpacks its own elements, which `pack` has put next to each other, while
the tensor core multiplies those of the previous step. X is B, loaded by TMA, so the sums are those of Y^T. With few
columns, the factors are multiplied with the sums of a step, which are fewer than its weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import nvbackend as nvb
from nvbackend import f16, f32, i32, u32
from nvbackend.layout import Layout

GROUP = 128  # columns with one factor
ROWS = 64  # of W that a warpgroup multiplies
UNIT = 128  # rows of W: it has a multiple of them
WORDS = 4  # of 8 numbers each: what a thread loads at a time
PART = 16 * WORDS  # columns of these
PARTS = GROUP // PART
PACKED = 64 * PART // 8  # words of a warpgroup's part
BIAS = 8  # the numbers are stored as 0 to 15
MAGIC = 0x6400  # 1024 in f16, whose last bits count ones
FEW_COLUMNS = 32  # up to so many it takes less time to multiply sums with factors than weights
OCTET = 8  # columns of Y^T in which a thread has four sums: two neighboring rows, two neighboring columns
REGISTERS = {1: 232, 2: 208}  # of the consumers' threads, by how many CTAs share a multiprocessor


def map_of_x(columns: int) -> nvb.TensorMap:
    return nvb.TensorMap(f16, box=(columns, PART))


Pair = Sequence[nvb.Value]
"""Two of them."""
X = Annotated[nvb.TensorMap, map_of_x]
Words = Annotated[nvb.Pointer, nvb.Pointer(u32, const=True)]
Scales = Annotated[nvb.Pointer, nvb.Pointer(f16, const=True)]
Pairs = Annotated[nvb.Pointer, nvb.Pointer(f16, align=4)]
Count = Annotated[i32, nvb.Scalar(i32, minimum=1)]
Rows = Annotated[i32, nvb.Scalar(i32, minimum=UNIT, multiple_of=UNIT)]


def unpacked(k: nvb.KernelBuilder, word: nvb.Value, factors: Pair | None = None) -> list[nvb.Value]:
    """Four registers of two f16: the numbers of a word, those of the even registers times the first factor."""
    pair = lambda number: k.packed.broadcast(k.const(number, f16))  # noqa: E731
    registers = []
    for register in range(4):
        byte, high = divmod(register, 2)
        bits = (word >> 8 * byte) & 0x000F000F << 4 * high | MAGIC << 16 | MAGIC
        ones = 16**high  # in the last bit of the number
        number = k.packed.fma("f16x2", bits.bitcast(nvb.f16x2), pair(1 / ones), pair(-1024 / ones - BIAS))
        scaled = number if factors is None else k.packed.mul("f16x2", number, factors[high])
        registers.append(scaled.bitcast(u32))
    return registers


class FactorsOfWeights:
    """Products of weights that were multiplied with their factors before."""

    def __init__(self, k: nvb.KernelBuilder, mma: nvb.TiledWgmma, acc: nvb.Accumulator) -> None:
        self._k, self._mma, self._acc = k, mma, acc

    def begin(self) -> None:
        """The sums of a tile are 0."""
        self._acc.clear()

    def multiply(self, words: Sequence[nvb.Value], factors: Pair, x: nvb.SharedTile) -> None:
        """Unpack a step's weights, and start its products."""
        k = self._k
        pairs = [k.packed.broadcast(factor) for factor in factors]
        fragments = [k.wgmma.fragment(unpacked(k, word, pairs), f16) for word in words]
        with k.wgmma.group(in_flight=1):
            self._mma.accumulate(self._acc, self._mma.make_fragment_A(fragments), x)

    def finish(self) -> None:
        """Wait for the last products."""
        self._k.wgmma.wait_group(0, drains=[self._acc])


class FactorsOfSums:
    """Products of a step whose sums are multiplied with the factors, while the next step's weights are unpacked."""

    def __init__(self, k: nvb.KernelBuilder, mma: nvb.TiledWgmma, acc: nvb.Accumulator) -> None:
        self._k, self._mma, self._acc, self._sums = k, mma, acc, mma.accumulator("sums")
        self._factors = [k.var(0.0, f32, name="factor") for _ in range(2)]

    def begin(self) -> None:
        """The sums of a tile are 0, and there is no step before its first."""
        self._acc.clear()
        self._sums.fill(0.0)
        for factor in self._factors:
            factor.set(0.0)

    def multiply(self, words: Sequence[nvb.Value], factors: Pair, x: nvb.SharedTile) -> None:
        """Unpack a step's weights, add the sums of the step before, and start the products."""
        k, sums = self._k, self._sums
        fragments = [k.wgmma.fragment(unpacked(k, word), f16) for word in words]
        self.finish()
        for variable, factor in zip(self._factors, factors, strict=True):
            variable.set(factor.to(f32))
        sums.clear()
        with k.wgmma.group(in_flight=1):
            self._mma.accumulate(sums, self._mma.make_fragment_A(fragments), x)

    def finish(self) -> None:
        """Wait for the products of the last step, and add their sums times its factors: two sums for each in turn."""
        self._k.wgmma.wait_group(0, drains=[self._sums])
        both = zip(self._sums.values(), self._acc.values(), strict=True)
        added = [self._k.math.fma(new, self._factors[place // 2 % 2], old) for place, (new, old) in enumerate(both)]
        self._acc.set(added)


@dataclass(frozen=True)
class Operands:
    """The parameters of a kernel that it multiplies, and the rows of W."""

    x: Any
    w: nvb.Address
    scales: nvb.Address
    n: nvb.Value


class Steps:
    """The steps along K of the tiles of a CTA: a ring of what they multiply, their loads, and their products."""

    def __init__(self, k: nvb.KernelBuilder, columns: int, stages: int, consumers: int) -> None:
        rows = ROWS * consumers
        instruction = nvb.wgmma.mma_async(f"m64n{columns}k16", f16, f16, f32, a_in_registers=True)
        self.mma = mma = k.tiled_mma(instruction, (consumers, 1))
        words, factors = (u32, Layout((WORDS, 128, consumers, PARTS))), (f16, Layout(rows))
        self.ring = k.pipeline(stages, consumers, released_by="thread", x=mma.smem_b(GROUP), w=words, factors=factors)
        self._k, self._columns, self._consumers = k, columns, consumers

    def load(self, stage: nvb.Stage[Any], operands: Operands, at: Pair, step: nvb.Value) -> None:
        """Load what a step of the tile that begins `at` a row and a column of Y^T multiplies."""
        k, (row, column), n, rows = self._k, at, operands.n, ROWS * self._consumers
        k.tma.load(stage.x, operands.x, (column, step * GROUP), stage.full)
        k.bulk.load(stage.factors.at(0), operands.scales + (step * n + row), 2 * rows, stage.full)
        for part in range(PARTS):
            source = operands.w + ((step * PARTS + part) * n + row) * (PART // 8)
            k.bulk.load(stage.w.at(0, 0, 0, part), source, 4 * self._consumers * PACKED, stage.full)

    def products(self, acc: nvb.Accumulator) -> FactorsOfWeights | FactorsOfSums:
        """What multiplies the steps of a tile."""
        return (FactorsOfSums if self._columns <= FEW_COLUMNS else FactorsOfWeights)(self._k, self.mma, acc)

    def multiply(self, products: FactorsOfWeights | FactorsOfSums, turns: nvb.Value, warpgroup: nvb.Value) -> None:
        """Multiply so many steps of a tile."""
        k, thread = self._k, self._k.thread_id() % 128
        mine = first_row(warpgroup * 128 + thread)
        products.begin()
        for _ in k.wgmma.turns(turns):
            with self.ring.drain(in_flight=1) as stage:
                factors = [stage.factors[mine + below] for below in range(2)]
                parts = [stage.w.at(0, thread, warpgroup, part).load(WORDS) for part in range(PARTS)]
                products.multiply([word for part in parts for word in part], factors, stage.x)
        products.finish()


class Tile:
    """A tile of Y that begins at the row and column `at` of Y^T; Y has the `extents` M and N.

    Columns of Y^T before `first` are of the tile before, which writes them.
    """

    def __init__(
        self, k: nvb.KernelBuilder, y: nvb.Address, at: Pair, extents: Pair, first: nvb.Value | None = None
    ) -> None:
        self._k, self._y, self._at, self._extents, self._first = k, y, at, extents, first

    def write(self, octet: nvb.Value | int, slot: nvb.Value, sums: Sequence[nvb.Value]) -> None:
        """Write the four sums that thread `slot` of the consumers has in the eight columns number `octet` of Y^T."""
        (row, column), (m, n) = self._at, self._extents
        i = column + octet * OCTET + slot % 4 * 2
        for right in range(2):
            inside = i + right < m
            with self._k.if_(inside if self._first is None else inside & (i + right >= self._first)):
                pair = [sums[right + 2 * below].to(f16) for below in range(2)]
                (self._y + ((i + right) * n + row + first_row(slot))).store(*pair)


def first_row(slot: nvb.Value) -> nvb.Value:
    """The first of two neighboring rows of a tile that a thread of the consumers has, as `pack` has put them."""
    return slot // 4 * 2


def pack(numbers: Any) -> Any:
    """W (N x K, 0 to 15) as the kernel reads it: by parts of 64 columns, 64 rows, threads, and 16 columns.

    Raises ValueError for other numbers, whose bits would go into those beside them, and for parts of a tile.
    """
    import numpy as np

    n, k = numbers.shape
    if n % UNIT or k % GROUP:
        raise ValueError(f"W has a multiple of {UNIT} rows and of {GROUP} columns, not {n} x {k}")
    if numbers.dtype.kind not in "iu" or not ((numbers >= 0) & (numbers < 2 * BIAS)).all():
        raise ValueError(f"the numbers of W are integers from 0 to {2 * BIAS - 1}: add {BIAS} to those of a sign")
    # A thread has a row of both halves of 16, which are neighbors here: rows are (block, warp, row, half), columns
    # (part, word, half, pair, number) (PTX ISA 9.7.15.5.1, A).
    parts = numbers.astype(np.uint32).reshape(n // 64, 4, 8, 2, k // PART, WORDS, 2, 4, 2).swapaxes(2, 3)
    row_half, column_half, number = np.ogrid[:2, :2, :2]
    shifts = (4 * row_half + 8 * column_half + 16 * number).astype(np.uint32)
    ordered = parts.transpose(4, 0, 1, 3, 7, 5, 2, 6, 8) << shifts
    return np.ascontiguousarray(ordered.sum((6, 7, 8), np.uint32)).reshape(-1)
