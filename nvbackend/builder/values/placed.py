"""Registers that hold elements of a tile at places that a layout says: what accumulators and fragments share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from nvbackend.builder.values.attributes import KnownAttributes
from nvbackend.builder.values.values import Operand, Value
from nvbackend.diagnostics import Rule

PLACES = Rule(
    id="elements.places",
    message="{given} is of no tile, so its elements have no rows and columns",
    fix="take the whole of what a tiled MMA makes, mma.accumulator() or mma.load_a(...), and not a part of it",
    why="Which rows and columns a thread has follows from how a tile is laid out over the threads.",
    reference="PTX ISA 9.7.14.5 and 9.7.15.5.1 (register fragments)",
)


class TilePlaces(Protocol):
    """What knows which elements of a tile the registers of the executing thread hold."""

    def elements(self, values: Sequence[Value], warpgroup: Operand | None) -> Any:
        """`values`, a thread's elements in the order of its registers, with their coordinates."""

    def along(self, axis: int, value: Any, warpgroup: Operand | None) -> Any:
        """A value for each row (axis 0) or column (1) of which the thread has elements."""


class Placed(KnownAttributes, ABC):
    """The elements of an accumulator or a fragment, with coordinates."""

    __slots__ = ()

    @abstractmethod
    def _places(self) -> TilePlaces | None:
        """Where its elements lie; None for a part of a tile."""

    @abstractmethod
    def _elements(self) -> Sequence[Value]:
        """The values of the thread's elements now, in the order of its registers."""

    def _known_places(self) -> TilePlaces:
        places = self._places()
        if places is None:
            PLACES.fail(given=self)
        return places

    def elements(self, warpgroup: Operand | None = None) -> Any:
        """What the thread's registers hold now, as `TileValues`: values with rows and columns.

        An accumulator of wgmma must be drained. `warpgroup` is the warpgroup's number in a tile of several, as
        `mma.accumulate` takes it: it must be said where rows or columns depend on it. Raises elements.places for a part
        of a fragment, and mma.warpgroup where rows or columns are asked for without it.
        """
        return self._known_places().elements(self._elements(), warpgroup)

    def items(self, warpgroup: Operand | None = None) -> Iterator[tuple[tuple[Value, Value], Value]]:
        """((row, column), value) of each of the thread's elements: `elements().items()`."""
        items: Iterator[tuple[tuple[Value, Value], Value]] = self.elements(warpgroup).items()
        return items

    def map(self, function: Callable[..., Operand], *others: Any, warpgroup: Operand | None = None) -> Any:
        """`function` of each element, and of what `others` have for it: `elements().map(...)`, as `TileValues`."""
        return self.elements(warpgroup).map(function, *others)

    def rows(self, value: Operand | Callable[[Value], Operand], warpgroup: Operand | None = None) -> Any:
        """A value for each row of which the thread has elements, as `AxisValues`; the registers are not read.

        It is a number or value, or a function of the row: `acc.rows(lambda row: scale[row])`.
        """
        return self._known_places().along(0, value, warpgroup)

    def columns(self, value: Operand | Callable[[Value], Operand], warpgroup: Operand | None = None) -> Any:
        """A value for each column, as `rows` has it: a bias is `acc.columns(lambda column: bias[column])`."""
        return self._known_places().along(1, value, warpgroup)
