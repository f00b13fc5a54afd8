"""Which elements of a tile the executing thread holds: the layout of all threads, and this one's place in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nvbackend.builder.core.core import Core
from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.tiles.coordinates import Cut
from nvbackend.builder.values.values import Value, as_value
from nvbackend.intrinsics.row.types import pred, s32
from nvbackend.layout import AnyLayout, IntTuple
from nvbackend.tiled import Partition
from nvbackend.tiled.ownership import Ownership


class Held:
    """What the executing thread has of a tile, by `ownership`.

    `place` is the thread's coordinate in it, `cut` gives its part of a tensor of the tile's shape, of shape `parts`.
    Where a coordinate along an axis is asked for, `check` of the axis raises if the place along it is not known.
    """

    def __init__(
        self,
        k: FunctionBuilder,
        ownership: Ownership,
        place: Any,
        cut: Cut,
        parts: IntTuple,
        check: Callable[[int], object] | None = None,
    ) -> None:
        self.k = k
        self.ownership = ownership
        self._cut = cut
        self.parts = parts
        self._place = place
        self._check = check

    @property
    def core(self) -> Core:
        """Where values are emitted."""
        return self.k.core

    def coordinates(self) -> list[tuple[Value, Value]]:
        """Row and column of each of the thread's elements."""
        first = (self.first(0), self.first(1))
        moved = [
            {at: _moved(self.core, start, at) for at in self.ownership.along(axis)} for axis, start in enumerate(first)
        ]
        return [(moved[0][row], moved[1][column]) for row, column in self.ownership.values]

    def indices(self, axis: int) -> list[Value]:
        """The rows (axis 0) or columns (1) of which the thread has elements."""
        first = self.first(axis)
        return [_moved(self.core, first, at) for at in self.ownership.along(axis)]

    def is_first(self, axis: int) -> Value:
        """Whether the thread has the first element of each of its rows (axis 0) or columns (1)."""
        first = self.first(1 - axis)
        if isinstance(first, int):  # that of all threads
            return as_value(self.core, True, pred)
        return as_value(self.core, first) == -min(self.ownership.along(1 - axis))

    def first(self, axis: int) -> Any:
        """Row (axis 0) or column (1) of the thread's first element. Raises mma.warpgroup as `check` does."""
        if self._check is not None:
            self._check(axis)
        return self.ownership.threads[axis](self._place)

    def cut(self, layout: AnyLayout) -> Partition:
        """The thread's part of a tensor of the tile's shape. Raises mma.warpgroup as `first` does."""
        if self._check is not None:
            self._check(0)
            self._check(1)
        return self._cut(layout)

    def is_like(self, other: Held) -> bool:
        """Whether a thread has the same elements in both, in the same order."""
        return self.ownership is other.ownership or self.ownership == other.ownership

    def goes_with(self, other: Held, axis: int) -> bool:
        """Whether a thread has the same rows (axis 0) or columns (1) in both: of scores and of what they weigh."""
        return self.ownership.goes_with(other.ownership, axis)

    def __repr__(self) -> str:
        rows, columns = self.ownership.shape
        return f"{rows} x {columns}"


def _moved(k: Core, first: Any, by: int) -> Value:
    number = as_value(k, first, s32) if isinstance(first, int) else as_value(k, first)
    return number if by == 0 else number + by
