"""Y = X @ W^T on Hopper, X in f16 and W of 4 bits with a factor for each 128 along K: few rows of X, as in decoding.

W is the operand A, from registers: a thread unpacks its own elements, which `pack` has put next to each other, while
the tensor core multiplies those of the previous step. X is B, loaded by TMA, so the sums are those of Y^T. The CTAs of
a cluster take the steps along K in turn, so that every multiprocessor has a part of W to read. Each CTA adds a part of
the sums: the others store theirs to its shared memory, and these stores complete on its mbarrier. With few columns, the
factors are multiplied with the sums of a step, which are fewer than its weights. Run it as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial, reduce
from itertools import product
from math import prod
from operator import add
from typing import Annotated, Any

import nvbackend as nvb
from nvbackend import f16, f32, i32, u32
from nvbackend.layout import Layout
from samples.gemm.model import MEMORY, resident
from samples.gemm.wide import begin
from samples.problem import Problem
from samples.problem import main as solve

GROUP = 128  # columns with one factor
ROWS = 64  # of W that a warpgroup multiplies
UNIT = 128  # rows of W: it has a multiple of them
WORDS = 4  # of 8 numbers each: what a thread loads at a time
PART = 16 * WORDS  # columns of these
PACKED = 64 * PART // 8  # words of a warpgroup's part
BIAS = 8  # the numbers are stored as 0 to 15
MAGIC = 0x6400  # 1024 in f16, whose last bits count ones
FEW_COLUMNS = 32  # up to so many it takes less time to multiply sums with factors than weights
TOGETHER = 32  # rows of X up to which a tile has all of them: two tiles would read W twice for little
OCTET = 8  # columns of Y^T in which a thread has four sums: two neighboring rows, two neighboring columns
SHARED = 231_000  # bytes of a multiprocessor's shared memory
REGISTERS = {1: 232, 2: 208}  # of the consumers' threads, by how many CTAs share a multiprocessor

# Microseconds of a launch (H200): always; of a step and each of its columns, by consumers and CTAs of a multiprocessor;
# of each other CTA's sums for a column, where CTAs share the depth; until a CTA begins where another one ended.
START, SENT, NEXT_WAVE = 2.2, 0.0044, 1.5
STEP = {(1, 1): (0.18, 0.0016), (2, 1): (0.21, 0.0037), (1, 2): (0.17, 0.0045)}
NORM = 2.0  # of two times that wait for each other


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
        self._sums.fill(0.0)
        self._factors = [k.var(0.0, f32, name="factor") for _ in range(2)]

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


class Tile:
    """A tile of Y that begins at the row and column `at` of Y^T; Y has the `extents` M and N."""

    def __init__(self, k: nvb.KernelBuilder, y: nvb.Address, at: Pair, extents: Pair) -> None:
        self._k, self._y, self._at, self._extents = k, y, at, extents

    def write(self, octet: nvb.Value | int, slot: nvb.Value, sums: Sequence[nvb.Value]) -> None:
        """Write the four sums that thread `slot` of the consumers has in the eight columns number `octet` of Y^T."""
        (row, column), (m, n) = self._at, self._extents
        i = column + octet * OCTET + slot % 4 * 2
        for right in range(2):
            with self._k.if_(i + right < m):
                pair = [sums[right + 2 * below].to(f16) for below in range(2)]
                (self._y + ((i + right) * n + row + first_row(slot))).store(*pair)


class Sums:
    """The sums of a tile whose depth `split` CTAs share: each of them adds and writes a part."""

    def __init__(self, k: nvb.KernelBuilder, columns: int, split: int, slots: int) -> None:
        self._k, self._split, self._slots = k, split, slots
        self._all = columns // OCTET * slots
        self._mine = self._all // split
        self._sent = k.shared(f32, 4 * self._all, align=16, name="sums")  # a part of each CTA
        self._full = k.mbarrier.array(1, arrivals=1, name="sent")

    def expect(self) -> None:
        """One thread says how many bytes will come from the other CTAs."""
        with self._k.if_(self._k.thread_id() == 0):
            self._k.mbarrier.arrive(self._full, expect_tx=16 * (self._all - self._mine))

    def send(self, octet: int, slot: nvb.Value, sums: Sequence[nvb.Value]) -> None:
        """Send four sums of a thread (`Tile.write`) to the CTA that adds them."""
        k, mine, slots = self._k, self._k.cluster.rank(), self._slots
        number = octet * slots + slot
        to = octet * slots // self._mine if self._mine % slots == 0 else number // self._mine
        place = self._sent + (mine * self._mine + number - to * self._mine) * 4
        with k.if_(mine == to):
            place.store(*sums)
        with k.else_():
            k.async_store.store(place, sums, self._full, to)

    def store(self, tile: Tile, thread: nvb.Value) -> None:
        """Add this CTA's part, when all of it is there, and write it."""
        k = self._k
        k.barrier.sync(1, self._slots)
        k.mbarrier.wait(self._full, 0)
        with k.range(thread, self._mine, self._slots) as index:
            parts = [(self._sent + (self._mine * source + index) * 4).load(4) for source in range(self._split)]
            number = k.cluster.rank() * self._mine + index
            total = [reduce(add, values) for values in zip(*parts, strict=True)]
            tile.write(number // self._slots, number % self._slots, total)


def first_row(slot: nvb.Value) -> nvb.Value:
    """The first of two neighboring rows of a tile that a thread of the consumers has, as `pack` has put them."""
    return slot // 4 * 2


@nvb.kernel(
    "sm_90a", threads=lambda consumers: 128 * (1 + consumers), cluster=lambda split: split, min_ctas=lambda ctas: ctas
)
def gemm(
    k: nvb.KernelBuilder,
    x: X,
    w: Words,
    scales: Scales,
    y: Pairs,
    m: Count,
    n: Rows,
    steps: Count,
    *,
    columns: int = 64,
    split: int = 2,
    stages: int = 4,
    consumers: int = 2,
    ctas: int = 1,
) -> None:
    """A tile has 64 rows of W for each consumer, and `columns` rows of X; a step has the columns of a group of both."""
    parts, rows = GROUP // PART, ROWS * consumers
    mma = k.tiled_mma(nvb.wgmma.mma_async(f"m64n{columns}k16", f16, f16, f32, a_in_registers=True), (consumers, 1))
    words_of_step, each_row = (u32, Layout((WORDS, 128, consumers, parts))), (f16, Layout(rows))
    ring = k.pipeline(stages, consumers, released_by="thread", x=mma.smem_b(GROUP), w=words_of_step, factors=each_row)
    shared = Sums(k, columns, split, 128 * consumers) if split > 1 else None
    k.tma.prefetch_maps(x)
    k.mbarrier.ready()
    if shared is not None:
        shared.expect()
    rank, number = k.cluster.rank(), k.cluster.id()
    row, column = number % (n // rows) * rows, begin(k, number // (n // rows), columns, m)
    tile = Tile(k, y, (row, column), (m, n))
    turns = (steps - rank + (split - 1)) // split

    with k.producer(registers=40):
        k.griddepcontrol("launch_dependents")
        k.griddepcontrol("wait")
        with k.range(turns) as turn, ring.fill() as stage:
            step = turn * split + rank
            k.tma.load(stage.x, x, (column, step * GROUP), stage.full)
            k.bulk.load(stage.factors.at(0), scales + (step * n + row), 2 * rows, stage.full)
            for part in range(parts):
                source = w + ((step * parts + part) * n + row) * (PART // 8)
                k.bulk.load(stage.w.at(0, 0, 0, part), source, 4 * consumers * PACKED, stage.full)

    with k.consumers(registers=REGISTERS[ctas]) as warpgroup:
        acc, thread = mma.accumulator(), k.thread_id() % 128
        acc.clear()
        slot = warpgroup * 128 + thread
        mine = first_row(slot)
        products = (FactorsOfSums if columns <= FEW_COLUMNS else FactorsOfWeights)(k, mma, acc)
        for _ in k.wgmma.turns(turns):
            with ring.drain(in_flight=1) as stage:
                factors = [stage.factors[mine + below] for below in range(2)]
                words = [word for part in range(parts) for word in stage.w.at(0, thread, warpgroup, part).load(WORDS)]
                products.multiply(words, factors, stage.x)
        products.finish()
        sums = acc.elements(warpgroup)
        for octet in range(columns // OCTET):
            (tile.write if shared is None else shared.send)(octet, slot, sums[4 * octet : 4 * octet + 4])
        if shared is not None:
            shared.store(tile, slot)


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


@dataclass(frozen=True)
class Choice:
    """The constants of a build."""

    columns: int
    split: int
    stages: int
    consumers: int = 2
    ctas: int = 1

    @property
    def kernel(self) -> nvb.KernelDefinition:
        return gemm.with_(**asdict(self))

    def grid(self, m: int, n: int) -> int:
        """A cluster for each tile."""
        return n // (ROWS * self.consumers) * -(-m // self.columns) * self.split

    def microseconds(self, m: int, n: int, k: int, multiprocessors: int) -> float:
        """About how long a launch takes: as long as the memory, and the busiest multiprocessor, by a norm of both."""
        ctas = self.grid(m, n)
        waves = -(-ctas // (resident(multiprocessors, self.split) * self.ctas))
        always, each = STEP[self.consumers, self.ctas if ctas > multiprocessors else 1]
        busiest = waves * -(-k // (GROUP * self.split)) * (always + each * self.columns)
        memory = (n * k / 2 + 2 * m * k) / MEMORY
        sent = SENT * self.columns * (self.split - 1)
        return START + (sent + NEXT_WAVE) * waves - NEXT_WAVE + (busiest**NORM + memory**NORM) ** (1 / NORM)


COLUMNS, SPLITS, LEAST_STAGES = (8, 16, 32, 64, 96, 128), (8, 4, 2, 1), 4


def choice_of(columns: int, split: int, consumers: int = 2, ctas: int = 1) -> Choice:
    """As many stages as there is room for beside the sums that CTAs share."""
    rows = ROWS * consumers
    stage = 2 * columns * GROUP + rows * GROUP // 2 + 2 * rows
    sums = 4 * columns * rows if split > 1 else 0
    return Choice(columns, split, min(8, (SHARED // ctas - sums) // stage), consumers, ctas)


def candidates(m: int) -> list[Choice]:
    """Tiles of all rows of X, up to 128, or of half of many, by how many CTAs share the depth and a multiprocessor."""
    together = (m, -(-m // 2)) if m > TOGETHER else (m,)
    fitting = [next((one for one in COLUMNS if rows <= one), COLUMNS[-1]) for rows in together]
    every = (choice_of(columns, split, *form) for columns, split, form in product(fitting, SPLITS, STEP))
    return list(dict.fromkeys(one for one in every if one.stages >= LEAST_STAGES))


def choose(m: int, n: int, k: int, multiprocessors: int = 132) -> Choice:
    """The candidate that takes least time; of equal ones the first."""
    return min(candidates(m), key=lambda one: one.microseconds(m, n, k, multiprocessors))


def launch(loaded: nvb.runtime.LoadedKernel, x: Any, w: Any, scales: Any, y: Any, choice: Choice) -> None:
    """Start the kernel on X (M x K), packed W, factors (K / GROUP x N) and Y (M x N), of whole tiles and groups.

    Raises ValueError for other shapes: a part of a group would be left out.
    """
    (m, k), n, words = x.shape, scales.shape[1], prod(w.shape)
    if n % UNIT or k % GROUP or scales.shape[0] != k // GROUP or tuple(y.shape) != (m, n) or words != n * k // 8:
        shapes = f"X {tuple(x.shape)}, W {words} words, factors {tuple(scales.shape)}, Y {tuple(y.shape)}"
        raise ValueError(f"X is M x K, W N x K / 8 words, factors K / {GROUP} x N, Y M x N, N of {UNIT}, not {shapes}")
    loaded.launch(choice.grid(m, n), x, w, scales, y, m, n, k // GROUP)


def problem_for(choice: Choice, m: int, n: int, k: int) -> Problem:
    """Random numbers; a weight is rounded to f16 once, when it is multiplied with its factor."""
    import numpy as np

    random = np.random.default_rng(m + n + k)
    x = random.standard_normal((m, k), np.float32).astype(np.float16)
    numbers = random.integers(0, 16, (n, k))
    scales = random.uniform(0.01, 0.1, (k // GROUP, n)).astype(np.float16)
    weights = (numbers - BIAS).astype(np.float16) * np.repeat(scales, GROUP, 0).T
    expected = x.astype(np.float32) @ weights.astype(np.float32).T
    output = np.full((m, n), np.nan, np.float16)
    return Problem(choice.kernel, partial(launch, choice=choice), (x, pack(numbers), scales), expected, output, 2**-10)


def problem(m: int, n: int, k: int) -> Problem:
    """Random numbers for the kernel that is chosen."""
    return problem_for(choose(m, n, k), m, n, k)


def main() -> int:
    return solve(
        __doc__,
        problem,
        sizes="M, N and K",
        multiples=(1, UNIT, GROUP),
        on_the_gpu=(64, 8192, 8192),
        in_the_simulator=(40, 128, 256),
    )


if __name__ == "__main__":
    sys.exit(main())
