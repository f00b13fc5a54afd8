"""What type checkers see of placed.py: the classes that its calls return, of a room above this one."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, overload

from nvbackend.builder.tiles.elements.axis_values import AxisValues
from nvbackend.builder.tiles.elements.tile_values import Other, TileValues
from nvbackend.builder.values.values import Operand, Value
from nvbackend.diagnostics import Rule

PLACES: Rule

class TilePlaces(Protocol):
    def elements(self, values: Sequence[Value], warpgroup: Operand | None) -> Any: ...
    def along(self, axis: int, value: Any, warpgroup: Operand | None) -> Any: ...

class Placed(ABC):
    @abstractmethod
    def _places(self) -> TilePlaces | None: ...
    @abstractmethod
    def _elements(self) -> Sequence[Value]: ...
    def _known_places(self) -> TilePlaces: ...
    def elements(self, warpgroup: Operand | None = None) -> TileValues: ...
    def items(self, warpgroup: Operand | None = None) -> Iterator[tuple[tuple[Value, Value], Value]]: ...
    @overload
    def map(self, function: Callable[[Value], Operand], *, warpgroup: Operand | None = None) -> TileValues: ...
    @overload
    def map(
        self, function: Callable[[Value, Value], Operand], other: Other, /, *, warpgroup: Operand | None = None
    ) -> TileValues: ...
    @overload
    def map(
        self,
        function: Callable[[Value, Value, Value], Operand],
        a: Other,
        b: Other,
        /,
        *,
        warpgroup: Operand | None = None,
    ) -> TileValues: ...
    @overload
    def map(self, function: Callable[..., Operand], *others: Other, warpgroup: Operand | None = None) -> TileValues: ...
    def rows(self, value: Operand | Callable[[Value], Operand], warpgroup: Operand | None = None) -> AxisValues: ...
    def columns(self, value: Operand | Callable[[Value], Operand], warpgroup: Operand | None = None) -> AxisValues: ...
