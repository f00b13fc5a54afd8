"""A thread's part of a tensor: a layout and where it begins."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from nvbackend.diagnostics import user_facing
from nvbackend.layout import AnyLayout, ComposedLayout, IntTuple, Layout, recast_layout
from nvbackend.layout.algebra.inttuple import added


@user_facing
@dataclass(frozen=True, repr=False)
class Partition:
    """A thread's part of a tensor, as `ThrMMA.partition_A`, `_B` and `_C` give it: CuTe's tCsA, tCgC.

    Coordinate c is at index `offset + layout(c)` of the tensor, through the tensor's swizzle where it has one: the
    offset is added before bits are exchanged. `offset` is an integer, or a builder's value where the thread is one.
    `start` is where it comes from, so that it can be counted in other units too: a layout and the thread's coordinate.
    """

    layout: AnyLayout
    offset: Any = 0
    start: tuple[Layout, Any] | None = field(default=None, compare=False, repr=False)

    def offset_in(self, elements: int, bits: int) -> Any:
        """The offset in units of `elements` elements, of `bits` bits each.

        Raises layout-algebra.recast where it is not a whole number of them.
        """
        if isinstance(self.offset, int) and self.offset == 0:
            return 0
        if self.start is None:
            return self.offset // elements
        threads, coordinate = self.start
        return recast_layout(threads, bits, bits * elements)(coordinate)

    @property
    def plain(self) -> Layout:
        """The layout without a swizzle, as CuTe prints a tensor in shared memory."""
        return self.layout.layout_b if isinstance(self.layout, ComposedLayout) else self.layout

    @property
    def shape(self) -> IntTuple:
        """(MMA, MMA_M, MMA_K, ...) of A, (MMA, MMA_N, MMA_K, ...) of B, (MMA, MMA_M, MMA_N, ...) of C."""
        return self.plain.shape

    def __call__(self, *coordinate: Any) -> Any:
        """The index of a coordinate in the tensor; with `_` in it, the partition of the modes that are left open.

        Raises layout-algebra.coordinate, and layout-algebra.element-width where the swizzle needs to know it.
        """
        kept, start = self.plain.slice_and_offset(*coordinate)
        offset = added(self.offset, start)
        if kept.shape != ():
            return Partition(self._with(kept), offset)
        if not isinstance(self.layout, ComposedLayout):
            return offset
        function = self.layout.in_elements()
        return function.swizzle(function.offset + offset)

    def offsets(self) -> list[int]:
        """The indices of all coordinates, in the order of the coordinate as one integer.

        Raises layout-algebra.run-time and layout-algebra.element-width.
        """
        indices = [self.offset + index for index in self.plain.offsets()]
        if not isinstance(self.layout, ComposedLayout):
            return indices
        function = self.layout.in_elements()
        return [function.swizzle(function.offset + index) for index in indices]

    def _with(self, layout: Layout) -> AnyLayout:
        return replace(self.layout, layout_b=layout) if isinstance(self.layout, ComposedLayout) else layout

    def __str__(self) -> str:
        known = isinstance(self.offset, int)
        return str(self.layout) if known and self.offset == 0 else f"{self.layout} from {self.offset if known else '?'}"

    def __repr__(self) -> str:
        return f"Partition({self.layout!r}, {self.offset!r})"
