"""`DescriptorIterator`: CuTe's fragment of an operand in shared memory, one descriptor word for each instruction.

`DescriptorIterator(base, layout)` has a base descriptor, or None where it is not known yet, and a layout whose strides
count units of 16 bytes, what the address field counts. `smem_desc` makes one of a partitioned layout.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.row.types import u64
from nvbackend.intrinsics.words.smem_descriptor import UNIT, SmemDescriptor
from nvbackend.intrinsics.words.tcgen05_descriptor import Tcgen05SmemDescriptor
from nvbackend.layout.algebra.inttuple import Coordinate, IntTuple, is_outside, is_run_time, text
from nvbackend.layout.algebra.layout import Layout, is_zero
from nvbackend.layout.descriptors.rules import INDEX, NO_BASE

Descriptor: TypeAlias = SmemDescriptor | Tcgen05SmemDescriptor


@user_facing
@dataclass(frozen=True, repr=False)
class DescriptorIterator:
    """The descriptors of the operands at all coordinates of `layout`, of which mode 0 is one descriptor: `_1:_0`.

    `base` is that of the operand at coordinate 0: a descriptor, a builder's value (its word, u64), or None. `kind` says
    which words they are where the base does not. Called with a coordinate as a layout is, or indexed by it, it gives
    the word: an integer where all is known, else a builder's value, with what is known already added. With `_` in the
    coordinate it gives the iterator of what is left open. Prints as in CuTe:
    `GMMA::DescriptorIterator o (_1,_2,_4,_3):(_0,_64,_256,_1024)`. Raises descriptor.no-base for another object.
    CUTLASS include/cute/atom/mma_traits_sm90_gmma.hpp (DescriptorIterator).
    """

    base: Any
    layout: Layout
    kind: type[Descriptor] = SmemDescriptor

    def __post_init__(self) -> None:
        if not isinstance(self.layout, Layout):
            raise TypeError("the boundary says which")
        if not (self.base is None or isinstance(self.base, Descriptor) or is_run_time(self.base)):
            NO_BASE.fail(layout=self.layout, given=self.base)
        if isinstance(self.base, Descriptor):
            object.__setattr__(self, "kind", type(self.base))

    @property
    def shape(self) -> IntTuple:
        """The shape of the layout, so that `size` and `rank` take an iterator too."""
        return self.layout.shape

    def with_base(self, base: Any) -> DescriptorIterator:
        """The same steps from another base: that of another buffer, or one that is known now."""
        return replace(self, base=base)

    def __call__(self, *coordinate: Coordinate) -> Any:
        """The word at a coordinate, or the iterator of the modes given as `_`.

        Raises descriptor.index, descriptor.no-base, descriptor.advance-carry and layout-algebra.coordinate.
        """
        place = coordinate[0] if len(coordinate) == 1 else coordinate
        if is_outside(place, self.shape):
            INDEX.fail(coordinate=text(place), shape=text(self.shape))
        kept, units = self.layout.slice_and_offset(*coordinate)
        if kept.shape == ():
            return self._word(units)
        return replace(self + units, layout=kept)

    def __getitem__(self, coordinate: Coordinate) -> Any:
        """As the call: `fragment[0, m, k]` is `fragment(0, m, k)`."""
        return self(*coordinate) if isinstance(coordinate, tuple) else self(coordinate)

    def __add__(self, units: Any) -> DescriptorIterator:
        """The iterator `units` of 16 bytes further on. Raises descriptor.advance-carry, descriptor.no-base."""
        if is_zero(units):
            return self
        if self.base is None:
            NO_BASE.fail(layout=self.layout, given=None)
        if isinstance(self.base, Descriptor) and isinstance(units, int):
            return replace(self, base=self.base.advance(int(units) * UNIT))
        return replace(self, base=self._word(units))

    def _word(self, units: Any) -> Any:
        """The base's word with `units` of 16 bytes added to its address."""
        if self.base is None:
            NO_BASE.fail(layout=self.layout, given=None)
        if isinstance(units, int):
            if isinstance(self.base, Descriptor):
                return self.base.advance(int(units) * UNIT).encode()
            return self.base + int(units) if units else self.base
        added = units.to(u64)
        return added + (self.base.encode() if isinstance(self.base, Descriptor) else self.base)

    def __str__(self) -> str:
        space = "UMMA" if issubclass(self.kind, Tcgen05SmemDescriptor) else "GMMA"
        return f"{space}::DescriptorIterator o {self.layout}"

    def __repr__(self) -> str:
        return f"DescriptorIterator({self.base!r}, {self.layout!r}, {self.kind.__name__})"
