"""Tiles in tensor memory as four warps load and store them: the lane and columns of each thread, its part of the tile.

Where all 128 lanes have elements, each thread reads its own lane (32x32b). Where only 16 lanes of each quarter have
some, two threads share a lane, and have half of its columns each (16x32bx2). PTX ISA 9.7.16.8.1 and 9.7.16.10.5.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nvbackend.atoms.tensor_memory import COLUMN_BITS
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.maps.tcgen05 import LANES
from nvbackend.intrinsics.row.semantics import WARP_SIZE
from nvbackend.layout import Layout, coalesce, make_layout, size
from nvbackend.layout.algebra.inttuple import modes
from nvbackend.tiled.fragment import Fragment
from nvbackend.tiled.ownership import Ownership, Place
from nvbackend.tiled.tensor_memory import tmem_cell

_HALF_WARP = WARP_SIZE // 2
_BITS = tuple(1 << bit for bit in range(LANES.bit_length() - 1))
_Group = tuple[tuple[int, int], ...]
"""(column of tensor memory, rows or columns of the tile from the first one) of a lane."""


@dataclass(frozen=True)
class LoadedLanes:
    """What the 128 threads of four warps have of columns of a CTA's accumulators, and how they load it.

    `places` takes a thread and two numbers of its value, the first of equal steps, to the place in the tile, rows
    first. `runs` are the first column of tensor memory and the number of columns of a thread's lane. With `split`, the
    threads of the upper half of each warp have the lanes of the lower half, so many columns further on.
    """

    ownership: Ownership
    places: Layout
    runs: tuple[tuple[int, int], ...]
    split: int | None = None


def loaded_lanes(accumulators: Fragment, rows: int, first: int, columns: int) -> LoadedLanes | None:
    """How `columns` columns of the tile from `first` on are loaded; None where threads would have unequal parts."""
    return _dealt_out(accumulators, rows, first, columns, 1)


def stored_lanes(a: Fragment, rows: int, columns: int) -> LoadedLanes | None:
    """How A in tensor memory is stored, `rows` of a CTA and `columns`; its `runs` and `split` count elements of A.

    None where threads would have unequal parts, or a row is in tensor memory twice.
    """
    own, *_ = modes(a.layout.shape)
    if size(modes(own)[0]) > rows:
        return None
    return _dealt_out(a, rows, 0, columns, COLUMN_BITS // a.bits)


def _dealt_out(fragment: Fragment, rows: int, first: int, columns: int, in_column: int) -> LoadedLanes | None:
    """`in_column` elements of the tile are in a column of tensor memory."""
    own, *_ = modes(fragment.layout.shape)
    height, width = map(size, modes(own))

    def cell(row: int, column: int) -> tuple[int, int]:
        index = fragment((row % height, column % width), row // height, column // width)
        lane, place, bit = tmem_cell(index, fragment.bits)
        return lane, place * in_column + bit // fragment.bits

    by_row = _grouped((cell(row, 0), row) for row in range(rows))
    by_column = _grouped((cell(0, first + column), column) for column in range(columns))
    if by_row is None or by_column is None:
        return None
    (row_starts, of_rows), (column_starts, of_columns) = by_row, by_column
    starts = {low + high: (row, column) for low, row in row_starts.items() for high, column in column_starts.items()}
    cells = sorted((a + b, row, column) for a, row in of_rows for b, column in of_columns)
    if len(starts) == LANES:
        return _dealt((rows, columns), [starts[lane] for lane in range(LANES)], cells, None)
    return _dealt_to_halves((rows, columns), starts, cells)


def _grouped(cells: Iterable[tuple[tuple[int, int], int]]) -> tuple[dict[int, int], _Group] | None:
    """The first row or column of each lane, and what they all have from there; None where lanes differ in that."""
    groups: dict[int, list[tuple[int, int]]] = {}
    for (lane, column), number in cells:
        groups.setdefault(lane, []).append((column, number))
    starts = {lane: group[0][1] for lane, group in groups.items()}
    patterns = {tuple((column, number - starts[lane]) for column, number in group) for lane, group in groups.items()}
    return (starts, patterns.pop()) if len(patterns) == 1 else None


def _dealt_to_halves(
    shape: Place, starts: dict[int, Place], cells: Sequence[tuple[int, int, int]]
) -> LoadedLanes | None:
    """The cells of the first 16 lanes of each quarter, half of the columns for each half of a warp."""
    count = len(cells) // 2
    wanted = [quarter + thread for quarter in range(0, LANES, WARP_SIZE) for thread in range(_HALF_WARP)]
    if sorted(starts) != wanted or len(cells) % 2:
        return None
    further = [
        tuple(b - a for a, b in zip(*pair, strict=True)) for pair in zip(cells[:count], cells[count:], strict=True)
    ]
    if len(set(further)) > 1:
        return None
    split, down, right = further[0]
    threads = []
    for thread in range(LANES):
        row, column = starts[thread // WARP_SIZE * WARP_SIZE + thread % _HALF_WARP]
        upper = thread // _HALF_WARP % 2
        threads.append((row + upper * down, column + upper * right))
    return _dealt(shape, threads, cells[:count], split)


def _dealt(
    shape: Place, threads: Sequence[Place], cells: Sequence[tuple[int, int, int]], split: int | None
) -> LoadedLanes | None:
    rows, _ = shape
    of_threads = [[row for row, _ in threads], [column for _, column in threads]]
    row_of, column_of = map(_by_bits, of_threads)
    values = tuple((row, column) for _, row, column in cells)
    along = _by_steps([row + rows * column for row, column in values])
    if [row_of.offsets(), column_of.offsets()] != of_threads or along is None:
        return None
    ownership = Ownership(shape, (row_of, column_of), values, tuple(range(LANES)))
    inside = _by_bits([row + rows * column for row, column in threads])
    return LoadedLanes(ownership, make_layout(inside, *along), _runs([cell[0] for cell in cells]), split)


def _by_bits(numbers: Sequence[int]) -> Layout:
    """The layout in which each bit of the index adds what it has among these offsets."""
    return coalesce(Layout((2,) * len(_BITS), tuple(numbers[bit] for bit in _BITS)))


def _by_steps(numbers: Sequence[int]) -> tuple[Layout, Layout] | None:
    """The layouts with these offsets: equal steps, and equal steps of those."""
    shape, stride, done = [1], [0], 1
    while done < len(numbers):
        step, count = numbers[done], 2
        while count * done < len(numbers) and numbers[count * done] == count * step:
            count += 1
        shape.append(count)
        stride.append(step)
        done *= count
    flat = Layout(tuple(shape), tuple(stride))
    if flat.offsets() != list(numbers):
        return None
    rest = Layout((1, *shape[2:]), (0, *stride[2:]))
    return coalesce(Layout(tuple(shape[:2]), tuple(stride[:2]))), coalesce(rest)


def _runs(columns: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """(first column, columns) of each run of columns that follow each other."""
    runs: list[tuple[int, int]] = []
    for column in columns:
        if runs and sum(runs[-1]) == column:
            runs[-1] = runs[-1][0], runs[-1][1] + 1
        else:
            runs.append((column, 1))
    return tuple(runs)
