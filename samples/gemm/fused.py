"""D = f(A @ B^T) by an epilogue of one's own: scales of rows and columns, a bias, an activation, a residual.

An epilogue is a function of the sums, a tile of f32 (s32 of integers) that lies in registers, and of what it may ask
for, a `Given`: a number for each row of D, one for each column, a matrix of D's shape, alpha and beta. What it does not
ask for is not loaded. It sees a part of D or of D^T: 64 rows of a tile. Sums outside of the matrix are zeros, or those
of its last row or column again.
In a program, `one = choose(m, n, depth, epilogue)` chooses the tile, `loaded = nvb.runtime.load(one.kernel.compile())`
builds its kernel, and `launch(loaded, one.tile, (a, b, d), (rows, columns, residual), alpha, beta, depth)` runs it.
`python -m samples.gemm.fused [EPILOGUE] M N K` runs one of EPILOGUES for any sizes: `wide` multiplies where TMA loads A
and B and stores D, and `unaligned` elsewhere.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, NamedTuple, TypeAlias

import nvbackend as nvb
from nvbackend import Major, e4m3, f16, f32, i32, i64
from nvbackend.layout import Layout
from samples.gemm.choice import K_MAJOR, check, check_copied, fits, for_tma, stored_so, unaligned_ones, wide_ones
from samples.gemm.forms import Form, operands_of
from samples.gemm.model import microseconds
from samples.gemm.unaligned import TMA, Columns, Depth, Unaligned
from samples.gemm.unaligned import A as CopiedA
from samples.gemm.unaligned import B as CopiedB
from samples.gemm.unaligned import C as CopiedD
from samples.gemm.unaligned import Place as PlaceOfPart
from samples.gemm.unaligned import products as products_of_copied
from samples.gemm.wide import A, B, C, Extent, Wide, products
from samples.problem import Problem
from samples.problem import main as solve
from samples.program import e4m3_matrix

MOST_COLUMNS = {False: 192, True: 128}
"""Of a tile, and of one of D^T: beside more sums a thread may have too few registers for what an epilogue loads."""
MOST_COPIED = {1: {False: 128, True: 128}, 2: {False: 192, True: 64}}
"""The same of tiles that threads copy, by the number of their warpgroups."""
WIDEST = 256, 2
"""Columns and cluster of larger tiles, in which those of the epilogues here are not spilled (ptxas 13.5)."""


def pointer_to_d(result: nvb.ElementType) -> nvb.Pointer:
    return nvb.Pointer(result, const=True)


Vector: TypeAlias = Annotated[nvb.Pointer, nvb.Pointer(f32, const=True)]
Matrix: TypeAlias = Annotated[nvb.Pointer, pointer_to_d]
Pairs: TypeAlias = Annotated[i32, nvb.Scalar(i32, minimum=2, multiple_of=2)]


@dataclass(frozen=True)
class Given:
    """What an epilogue may ask for, of a tile of D or D^T: each is loaded where it is asked for first.

    `extents` are M and N, and `at` is the row and the column of D of the tile's first element. `swapped`, the rows of
    the sums are columns of D. An element's place in D, for example for a mask, follows from the three. Rows of D are
    multiples of `together` elements.
    """

    k: nvb.KernelBuilder
    sums: nvb.TileValues
    alpha: nvb.Value
    beta: nvb.Value
    vectors: tuple[nvb.Address, nvb.Address]
    matrix: nvb.Address
    at: tuple[nvb.Value, nvb.Value]
    extents: tuple[nvb.Value, nvb.Value]
    swapped: bool
    together: int = 2

    @cached_property
    def of_rows(self) -> nvb.AxisValues:
        """The first vector's number for each row of D."""
        return self._along(0)

    @cached_property
    def of_columns(self) -> nvb.AxisValues:
        """The second vector's number for each column of D."""
        return self._along(1)

    @cached_property
    def residual(self) -> nvb.TileValues:
        """The matrix's elements, as f32."""
        (row, column), (m, n) = self.at, self.extents
        first = row.to(i64) * n.to(i64) + column.to(i64)
        strides: Any = (1, n) if self.swapped else (n, 1)
        height, width = (n - column, m - row) if self.swapped else (m - row, n - column)
        tensor = self.k.tensor(self.matrix + first, Layout(self.sums.shape, strides), multiple_of=self.together)
        inside = self.k.identity_tensor(self.sums.shape).below(height, width)
        return self.sums.load(tensor, where=inside).to(f32)

    def _along(self, axis: int) -> nvb.AxisValues:
        first, end, vector = self.at[axis], self.extents[axis], self.vectors[axis]
        along = self.sums.rows if (axis == 0) != self.swapped else self.sums.columns
        return along(lambda place: (vector + (first + place)).load(where=first + place < end)[0])


Tile: TypeAlias = Wide | Unaligned
Epilogue = Callable[[nvb.TileValues, Given], nvb.TileValues]


def finished(epilogue: Epilogue, given: Given) -> nvb.TileValues:
    """What an epilogue makes of the sums. Raises ValueError unless these are values of a tile."""
    values = epilogue(given.sums, given)
    if not isinstance(values, nvb.TileValues):
        raise ValueError(f"an epilogue gives the values to store, not {values!r}")
    return values


@nvb.kernel("sm_90a", threads=lambda consumers: 128 * (1 + consumers), cluster=lambda cluster: cluster, min_ctas=1)
def fused(
    k: nvb.KernelBuilder,
    a: A,
    b: B,
    d: C,
    of_rows: Vector,
    of_columns: Vector,
    residual: Matrix,
    alpha: f32,
    beta: f32,
    m: Extent,
    n: Pairs,
    steps: i32,
    *,
    epilogue: Epilogue,
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
    """The constants are those of `wide`, and the epilogue. There is no batch."""
    tile = Wide(columns, consumers, cluster, stages, parts, operand, result, batched, tail, group)
    one = replace(tile, pingpong=pingpong, swapped=swapped, a_major=a_major, b_major=b_major)

    def finish(acc: nvb.Accumulator, part: nvb.Operand, place: Any) -> nvb.TileValues:
        sums, at = acc.elements(part), place[1:]
        in_d = at[::-1] if swapped else at
        vectors, extents = (of_rows, of_columns), (m, n)
        return finished(epilogue, Given(k, sums, alpha, beta, vectors, residual, in_d, extents, swapped))

    products(k, (a, b, d), k.const(1, i32), (m, n), steps, one, finish)


@nvb.kernel("sm_90a", threads=lambda producers, consumers: 128 * (producers + consumers), min_ctas=1)
def fused_unaligned(
    k: nvb.KernelBuilder,
    a: CopiedA,
    b: CopiedB,
    d: CopiedD,
    of_rows: Vector,
    of_columns: Vector,
    residual: Matrix,
    alpha: f32,
    beta: f32,
    m: Extent,
    n: Columns,
    depth: Depth,
    *,
    epilogue: Epilogue,
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
    """The constants are those of `unaligned`, and the epilogue."""
    one = Unaligned(columns, producers, consumers, stages, width, together, operand, result, group, swapped)

    def finish(acc: nvb.Accumulator, part: nvb.Operand, at: PlaceOfPart) -> nvb.TileValues:
        sums, in_d = acc.elements(part), at[::-1] if swapped else at
        vectors, extents = (of_rows, of_columns), (m, n)
        return finished(epilogue, Given(k, sums, alpha, beta, vectors, residual, in_d, extents, swapped, together))

    products_of_copied(k, (a, b, d), (m, n), depth, one, finish)


def biased_gelu(sums: nvb.TileValues, given: Given) -> nvb.TileValues:
    """gelu(A @ B^T + bias)."""
    return (sums + given.of_columns).map(lambda x: given.k.math.gelu(x, approx=True))


def added(sums: nvb.TileValues, given: Given) -> nvb.TileValues:
    """alpha A @ B^T + beta R."""
    return sums * given.alpha + given.residual * given.beta


def scaled(sums: nvb.TileValues, given: Given) -> nvb.TileValues:
    """A @ B^T with a scale for each row of A, and one for each row of B."""
    return sums * given.of_rows * given.of_columns


class Case(NamedTuple):
    """An epilogue, the types that it is tried with, and the same in NumPy."""

    epilogue: Epilogue
    form: Form
    expected: Callable[..., Any]


def _gelu(product: Any, _rows: Any, columns: Any, *_: Any) -> Any:
    import numpy as np

    x = product.astype(np.float64) + columns
    return x * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


EPILOGUES = {
    "bias_gelu": Case(biased_gelu, Form(), _gelu),
    "residual": Case(added, Form(), lambda product, _rows, _columns, more, alpha, beta: alpha * product + beta * more),
    "row_scales": Case(
        scaled,
        Form(e4m3, f16, e4m3_matrix, tolerance=2**-8),
        lambda product, rows, columns, *_: product * rows[:, None] * columns,
    ),
}


@dataclass(frozen=True)
class Fused:
    """A tile, and what is done with it."""

    tile: Tile
    epilogue: Epilogue

    @property
    def kernel(self) -> nvb.KernelDefinition:
        definition = fused_unaligned if isinstance(self.tile, Unaligned) else fused
        return definition.with_(**vars(self.tile), epilogue=self.epilogue)


def has_room(one: Tile, most_columns: int | None) -> bool:
    """Whether a thread has registers for an epilogue beside its sums."""
    if isinstance(one, Unaligned):
        most = MOST_COLUMNS if one.width == TMA else MOST_COPIED[one.producers]
        return one.columns <= (most[one.swapped] if most_columns is None else most_columns)
    if one.pingpong or most_columns is not None:
        return not one.pingpong and one.columns <= (most_columns or 0)
    return one.columns <= MOST_COLUMNS[one.swapped] or (not one.swapped and (one.columns, one.cluster) == WIDEST)


def choose(
    m: int,
    n: int,
    depth: int,
    epilogue: Epilogue,
    operand: nvb.ElementType = f16,
    result: nvb.ElementType = f16,
    majors: tuple[Major, Major] = K_MAJOR,
    *,
    most_columns: int | None = None,
    multiprocessors: int = 132,
) -> Fused:
    """The tile that takes the least time by the model, of those that leave registers to an epilogue.

    Where ptxas warns of spills, take tiles of fewer columns. Raises ValueError as `candidates` does.
    """
    if not callable(epilogue):
        raise ValueError(f"an epilogue is a function of the sums and of what is given, not {epilogue!r}")
    check(operand, result, majors, m=m, n=n, depth=depth, multiprocessors=multiprocessors)
    every: Iterable[Tile]
    if for_tma(m, n, depth, operand, result, majors):
        wide = (one for one in stored_so(wide_ones(operand, result), majors) if isinstance(one, Wide))
        every = (one.for_depth(depth) for one in wide if one.cluster <= multiprocessors)
    else:
        check_copied(m, n, depth, None, majors)
        every = unaligned_ones(n, depth, operand, result)
    tiles = [one for one in every if has_room(one, most_columns) and fits(one, m, n)]
    if not tiles:
        raise ValueError(f"no tile has at most {most_columns} columns")
    return Fused(min(tiles, key=lambda one: microseconds(one, m, n, depth, multiprocessors)), epilogue)


def check_shapes(one: Tile, operands: tuple[Any, Any, Any], given: tuple[Any, Any, Any], depth: int) -> None:
    """Raises ValueError for arrays of other shapes: TMA reads zeros past their ends, and an epilogue anything."""
    a, b, d = (tuple(array.shape) for array in operands)
    if len(d) != 2:
        raise ValueError(f"D is M x N, not {d}")
    majors = (one.a_major, one.b_major) if isinstance(one, Wide) else K_MAJOR
    stored = [(depth, x) if major is Major.MN else (x, depth) for x, major in zip(d, majors, strict=True)]
    for name, shape, right in (("A", a, stored[0]), ("B", b, stored[1])):
        if shape != right:
            raise ValueError(f"{name} is {right}, as D is {d} and K = {depth}, not {shape}")
    names = "numbers of rows", "numbers of columns", "elements of the matrix"
    for name, array, wanted in zip(names, given, (d[:1], d[1:], d), strict=True):
        if tuple(array.shape) != wanted and math.prod(array.shape) != 1:
            raise ValueError(f"{name} are of shape {wanted}, or one element, not {tuple(array.shape)}")


def launch(
    loaded: nvb.runtime.LoadedKernel,
    one: Tile,
    operands: tuple[Any, Any, Any],
    given: tuple[Any, Any, Any],
    alpha: float,
    beta: float,
    depth: int,
) -> None:
    """Start the kernel on A, B and D, and on a number for each row, one for each column, and a matrix like D.

    Whatever the epilogue does not ask for may be an array of one element. Raises ValueError for other shapes.
    """
    check_shapes(one, operands, given, depth)
    m, n = operands[2].shape
    grid, last = one.launch_of(m, n, depth, loaded.device.limits.multiprocessors)
    sizes = last[-3:]  # before them are the scale, and of `wide` the matrices of a batch
    loaded.launch(grid, *operands, *given, alpha, beta, *sizes)


def problem_for(one: Fused, m: int, n: int, depth: int, case: Case) -> Problem:
    """Random matrices and vectors."""
    import numpy as np

    (a, b), product = operands_of(case.form, m, n, depth)
    random, (alpha, beta) = np.random.default_rng(n), (0.5, -3.0)
    rows, columns = (random.uniform(0.5, 2, extent).astype(np.float32) for extent in (m, n))
    more = (random.standard_normal((m, n)) * np.sqrt(depth)).astype(case.form.storage)
    expected = case.expected(product, rows, columns, more.astype(np.float32), alpha, beta)

    def start(loaded: nvb.runtime.LoadedKernel, *arrays: Any) -> None:
        a, b, *given, d = arrays
        launch(loaded, one.tile, (a, b, d), (given[0], given[1], given[2]), alpha, beta, depth)

    output = np.full((m, n), 77, case.form.storage)
    return Problem(one.kernel, start, (a, b, rows, columns, more), expected, output, case.form.tolerance)


def problem(name: str, m: int, n: int, depth: int) -> Problem:
    """Random matrices for the tile that the model chooses."""
    case = EPILOGUES[name]
    form = case.form
    one = choose(m, n, depth, case.epilogue, form.operand, form.result, form.majors)
    return replace(problem_for(one, m, n, depth, case), choice=one.tile.label)


def main() -> int:
    return solve(
        __doc__,
        problem,
        sizes="M, N and K",
        on_the_gpu=(4096, 4096, 4096),
        in_the_simulator=(200, 304, 80),
        forms=tuple(EPILOGUES),
    )


if __name__ == "__main__":
    sys.exit(main())
