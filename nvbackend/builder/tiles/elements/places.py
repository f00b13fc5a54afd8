"""Where the registers of a tiled MMA's threads, and of one instruction's, have their elements in the tile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.tiles.coordinates import Cut
from nvbackend.builder.values.values import Operand, Value
from nvbackend.layout import IntTuple, Layout
from nvbackend.tiled import MmaOperand, ThrMMA, TiledMMA
from nvbackend.tiled.ownership import Ownership, mma_coordinate, ownership_of_mma

if TYPE_CHECKING:  # few kernels ask for elements
    from nvbackend.builder.tiles.elements.axis_values import AxisValues
    from nvbackend.builder.tiles.elements.held import Held
    from nvbackend.builder.tiles.elements.tile_values import TileValues

_CUTS = {MmaOperand.A: ThrMMA.partition_A, MmaOperand.B: ThrMMA.partition_B, MmaOperand.C: ThrMMA.partition_C}


class MmaPlaces:
    """The places of an operand's registers in a tile of `shape`; `thread_of` gives the slice of this thread.

    `check` raises, for an axis, if a thread's place along it depends on the number of its warpgroup.
    """

    def __init__(
        self,
        k: FunctionBuilder,
        layouts: TiledMMA,
        operand: MmaOperand,
        shape: tuple[int, int],
        thread_of: Callable[[Operand], ThrMMA],
        check: Callable[[int], object] | None = None,
    ) -> None:
        self._k = k
        self._layouts = layouts
        self._operand = operand
        self._shape = shape
        self._thread_of = thread_of
        self._check = check

    @cached_property
    def _ownership(self) -> Ownership:
        return ownership_of_mma(self._layouts, self._operand, self._shape)

    def elements(self, values: Sequence[Value], warpgroup: Operand | None) -> TileValues:
        """`values` with their coordinates in the tile."""
        from nvbackend.builder.tiles.elements.tile_values import TileValues

        return TileValues(self._held(warpgroup), values)

    def along(self, axis: int, value: Any, warpgroup: Operand | None) -> AxisValues:
        """A value for each row or column of which the thread has elements."""
        from nvbackend.builder.tiles.elements.tile_values import axis_values

        return axis_values(self._held(warpgroup), axis, value)

    def _held(self, warpgroup: Operand | None) -> Held:
        from nvbackend.builder.tiles.elements.held import Held

        thread = self._thread_of(0 if warpgroup is None else warpgroup)
        check = self._check if warpgroup is None else None
        parts = self._layouts.partition(self._operand, Layout(self._shape), (0, 0, 0, 0)).shape
        cut: Cut = lambda layout: _CUTS[self._operand](thread, layout)  # noqa: E731
        return Held(self._k, self._ownership, mma_coordinate(self._operand, thread.vmnk), cut, parts, check)


class LayoutPlaces:
    """The places of registers that an ownership describes: of one instruction, or of a load of tensor memory."""

    def __init__(
        self,
        k: FunctionBuilder,
        ownership: Ownership,
        parts: IntTuple,
        thread: Callable[[], Any],
        cut: Callable[[Any], Cut],
    ) -> None:
        self._k = k
        self._ownership = ownership
        self._parts = parts
        self._thread = thread
        self._cut = cut

    def elements(self, values: Sequence[Value], warpgroup: Operand | None) -> TileValues:  # noqa: ARG002
        """`values` with their coordinates."""
        from nvbackend.builder.tiles.elements.tile_values import TileValues

        return TileValues(self._held(), values)

    def along(self, axis: int, value: Any, warpgroup: Operand | None) -> AxisValues:  # noqa: ARG002
        """A value for each row or column of which the thread has elements."""
        from nvbackend.builder.tiles.elements.tile_values import axis_values

        return axis_values(self._held(), axis, value)

    def _held(self) -> Held:
        from nvbackend.builder.tiles.elements.held import Held

        thread = self._thread()
        return Held(self._k, self._ownership, thread, self._cut(thread), self._parts)
