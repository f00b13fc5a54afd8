"""Which elements of a tile each thread has in its registers, and what follows from that for rows and for operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, cached_property, lru_cache
from typing import Any

from nvbackend.atoms.atom import accumulator as accumulator_layout
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.mma.wgmma import M as WARPGROUP_ROWS
from nvbackend.intrinsics.row.semantics import WARP_SIZE, WARPGROUP_SIZE
from nvbackend.layout import Layout, composition, size
from nvbackend.tiled.operand import MmaOperand
from nvbackend.tiled.tiled_mma import TiledMMA

Place = tuple[int, int]
_TILES = 64
"""So many tiles are remembered with who owns them: those of a kernel come again and again."""
_AXES = ((1, 0), (0, 1))
"""Strides by which a tile's layout gives the row, and the column, of an element."""
_LANE_BITS = tuple(1 << bit for bit in range(WARP_SIZE.bit_length() - 1))


@dataclass(frozen=True)
class Ownership:
    """Rows and columns of the elements that each thread has of a tile of `shape`.

    `threads` go from the coordinate of a thread to the row and to the column of its first element; the others are at
    `values` from there, in the order of the thread's registers. `coordinates` are those of threads 0, 1, ...
    """

    shape: Place
    threads: tuple[Layout, Layout]
    values: tuple[Place, ...]
    coordinates: tuple[Any, ...]

    def first(self, coordinate: Any) -> tuple[Any, Any]:
        """Row and column of the first element of the thread at a coordinate, which may hold builder's values."""
        row, column = (layout(coordinate) for layout in self.threads)
        return row, column

    @cached_property
    def firsts(self) -> tuple[Place, ...]:
        """Row and column of the first element of each thread."""
        return tuple(self.first(coordinate) for coordinate in self.coordinates)

    def along(self, axis: int) -> tuple[int, ...]:
        """The rows (axis 0) or columns (1) of a thread, from its first, each once and in order."""
        return tuple(sorted({place[axis] for place in self.values}))

    def goes_with(self, other: Ownership, axis: int) -> bool:
        """Whether each thread has the same rows (axis 0) or columns (1) in both, of tiles of any extent across them."""
        mine, others = ((each.along(axis), [first[axis] for first in each.firsts]) for each in (self, other))
        return mine == others

    def lanes(self, axis: int) -> tuple[int, ...]:
        """The bits of a lane's number that change nothing about which rows (axis 0) or columns (1) it has."""
        starts = [first[axis] for first in self.firsts]
        return tuple(
            bit for bit in _LANE_BITS if all(starts[thread ^ bit] == start for thread, start in enumerate(starts))
        )

    def in_lanes(self, axis: int) -> bool:
        """Whether the lanes of one warp that differ in `lanes` have each of their rows or columns whole, and once."""
        return all(self._is_whole([warp], axis) for warp in range(len(self.firsts))[::WARP_SIZE])

    def _is_whole(self, threads: list[int], axis: int) -> bool:
        """Whether a line of these threads is whole, and has each element once, with the lanes that `lanes` gives."""
        other = 1 - axis
        across = sorted(place for thread in threads for place in self._shared(thread, axis, other))
        return across == list(range(self.shape[other]))

    def _shared(self, thread: int, axis: int, other: int) -> list[int]:
        """The columns (axis 0) or rows (1) of a thread and of all lanes that differ from it in `lanes`."""
        group = [thread]
        for bit in self.lanes(axis):
            group += [lane ^ bit for lane in group]
        return [self.firsts[each][other] + place for each in group for place in self.along(other)]

    def spread(self, axis: int) -> tuple[int, ...] | None:
        """Where the parts of a row (axis 0) or column (1) begin across it, of the lanes of a warp that share it each.

        All rows have the same parts, and each element is in one of them; None where that does not hold.
        """
        others, other = sum(self.lanes(axis)), 1 - axis
        owners: dict[int, list[int]] = {}
        for thread, first in enumerate(self.firsts):
            if not thread & others:
                owners.setdefault(first[axis], []).append(thread)
        lines = sorted(start + place for start in owners for place in self.along(axis))
        is_dealt = lines == list(range(self.shape[axis])) and all(
            self._is_whole(threads, axis) for threads in owners.values()
        )
        # Threads have equally many elements, at the same distances: only one way to deal a line out leaves none over.
        return tuple(sorted(self.firsts[thread][other] for thread in next(iter(owners.values())))) if is_dealt else None

    def order_of(self, other: Ownership) -> tuple[int, ...] | None:
        """For each value of `other`, which value of this it is; None where a thread has others there."""
        if self.shape != other.shape or self.firsts != other.firsts:
            return None
        numbers = {place: number for number, place in enumerate(self.values)}
        order = tuple(numbers.get(place, -1) for place in other.values)
        return None if -1 in order else order


def ownership_of_mma(mma: TiledMMA, operand: MmaOperand, shape: Place) -> Ownership:
    """What the threads of a tiled MMA have of a tile of an operand in registers. Raises tiled-mma.tile."""
    if mma._is_static and all(type(extent) is int for extent in shape):
        return _ownership_before(mma, operand, shape)
    return _ownership_of_mma(mma, operand, shape)


def _ownership_of_mma(mma: TiledMMA, operand: MmaOperand, shape: Place) -> Ownership:
    def split(strides: Place) -> Sequence[Layout]:
        cut = mma.thrfrg(operand, Layout(shape, strides))
        assert isinstance(cut, Layout)
        return cut.modes

    numbers = range(mma.size)
    coordinates = tuple(mma_coordinate(operand, mma.get_slice(number).vmnk) for number in numbers)
    return _ownership(shape, split, coordinates)


_ownership_before = lru_cache(maxsize=_TILES)(_ownership_of_mma)


def mma_coordinate(operand: MmaOperand, vmnk: tuple[Any, Any, Any, Any]) -> Any:
    """The coordinate, in the ownership of an operand, of the thread at `vmnk` of a tiled MMA."""
    v, *mnk = vmnk
    return v, tuple(mnk[place] for place in operand.places)


@cache
def ownership_of_atom(n: int) -> Ownership:
    """What the threads of a warpgroup have of the accumulator of one wgmma, 64 x `n`."""
    owners = accumulator_layout(WARPGROUP_ROWS, n, WARPGROUP_SIZE // WARP_SIZE)

    def split(strides: Place) -> Sequence[Layout]:
        cut = composition(Layout((WARPGROUP_ROWS, n), strides), owners)
        assert isinstance(cut, Layout)
        return cut.modes

    return _ownership((WARPGROUP_ROWS, n), split, tuple(range(WARPGROUP_SIZE)))


def _ownership(shape: Place, split: Callable[[Place], Sequence[Layout]], coordinates: tuple[Any, ...]) -> Ownership:
    (of_rows, rows), (of_columns, columns) = (split(strides) for strides in _AXES)
    assert size(rows) == size(columns)
    return Ownership(
        shape, (of_rows, of_columns), tuple(zip(rows.offsets(), columns.offsets(), strict=True)), coordinates
    )
