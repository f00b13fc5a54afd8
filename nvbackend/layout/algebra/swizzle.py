"""CuTe's swizzle, an exclusive-or of some bits of an index into others, and a layout with one after it.

CuTe prints the latter as `Sw<3,4,3> o smem_ptr o (_8,_64):(_64,_1)`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from nvbackend.diagnostics import printed, record, run_callback, user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.layout.algebra.inttuple import Coordinate, IntTuple, leaves, product, text
from nvbackend.layout.algebra.layout import Layout, drawn, must_be_known
from nvbackend.layout.algebra.rules import COORDINATE, ELEMENT_WIDTH, RECAST, SWIZZLE

INDEX_BITS = 64


@user_facing
@dataclass(frozen=True, slots=True)
class Swizzle:
    """`Swizzle<B,M,S>`: `bits` bits, found `shift` above bit `base`, change the `bits` bits from `base` on.

    With S < 0 the upper ones are changed by the lower. Applied twice it changes nothing. Prints as `Sw<B,M,S>`.
    Raises layout-algebra.swizzle. CUTLASS include/cute/swizzle.hpp.
    """

    bits: int
    base: int
    shift: int

    def __post_init__(self) -> None:
        problem = None
        if self.bits < 0 or self.base < 0:
            problem = "a negative number of bits"
        elif abs(self.shift) < self.bits:
            problem = f"a shift of {self.shift} lets its {self.bits} bits overlap"
        elif self.base + self.bits + abs(self.shift) > INDEX_BITS:
            problem = f"it reaches past the {INDEX_BITS} bits of an index"
        if problem is not None:
            SWIZZLE.fail(bits=self.bits, base=self.base, shift=self.shift, problem=problem)

    @property
    def source_mask(self) -> int:
        """The bits that say what is changed (CuTe's yyy_msk)."""
        return ((1 << self.bits) - 1) << self.base + max(0, self.shift)

    @property
    def target_mask(self) -> int:
        """The bits that are changed (CuTe's zzz_msk)."""
        return ((1 << self.bits) - 1) << self.base + max(0, -self.shift)

    @property
    def period(self) -> int:
        """After how many indices the pattern repeats."""
        return 1 << self.base + self.bits + abs(self.shift)

    def __call__(self, index: Any) -> Any:
        """The swizzled index, an integer or a builder value; for the latter the arithmetic is emitted."""
        if self.bits == 0:
            return index
        if isinstance(index, (float, str, tuple, list)) or not hasattr(type(index), "__rshift__"):
            COORDINATE.fail(coordinate=index, shape=self.period, problem=f"{printed(index)} is not an index")
        bits = index & self.source_mask
        return index ^ (bits >> self.shift if self.shift >= 0 else bits << -self.shift)

    def upcast(self, factor: int) -> Swizzle:
        """The same swizzle for elements `factor` times as wide, a power of two. Raises layout-algebra.recast."""
        steps = _steps(self, factor, "wide")
        if steps > self.base and self.bits:
            problem = f"it exchanges runs of {1 << self.base} elements only"
            RECAST.fail(what=self, factor=factor, scale="wide", problem=problem)
        return Swizzle(self.bits, max(0, self.base - steps), self.shift)

    def downcast(self, factor: int) -> Swizzle:
        """The same swizzle for elements of a `factor`-th of the width, a power of two. Raises layout-algebra.recast."""
        return Swizzle(self.bits, self.base + _steps(self, factor, "narrow"), self.shift)

    def __str__(self) -> str:
        return f"Sw<{self.bits},{self.base},{self.shift}>"


def _steps(swizzle: Swizzle, factor: int, scale: str) -> int:
    if factor < 1 or factor & (factor - 1):
        RECAST.fail(what=swizzle, factor=factor, scale=scale, problem="a swizzle works on bits, and no bit is it")
    return factor.bit_length() - 1


def swizzle_of_masks(source: int, target: int) -> Swizzle | None:
    """The swizzle that changes the bits of `target` by those of `source`; None where they are not two equal runs."""
    if source <= 0 or target <= 0 or source & target:
        return None
    low_source, low_target = (mask & -mask for mask in (source, target))
    runs = {(mask // low).bit_length() for mask, low in ((source, low_source), (target, low_target))}
    filled = all((mask // low) & (mask // low + 1) == 0 for mask, low in ((source, low_source), (target, low_target)))
    if len(runs) != 1 or not filled:
        return None
    shift = low_source.bit_length() - low_target.bit_length()
    return Swizzle(runs.pop(), min(low_source, low_target).bit_length() - 1, shift)


BYTE_BITS = 8
_COUNTED = 1 << 20
"""So many indices are looked at one by one, more than there are in shared memory."""


@record
@dataclass(frozen=True, slots=True)
class SmemPtr:
    """In place of the offset of a swizzled layout: a shared-memory pointer that is not set yet.

    The swizzle then works on the bytes of the address, the layout counts elements of `bits` bits, and the memory
    begins at a multiple of the swizzle's period. None where the width is not known: a printout may leave it out.
    """

    bits: int | None = None

    def flagged(self) -> str:
        """CUTLASS's text, with the width where that is known: `smem_ptr[16b](unset)`."""
        return "smem_ptr" if self.bits is None else f"smem_ptr[{self.bits}b](unset)"

    def __str__(self) -> str:
        return "smem_ptr"


@user_facing
@dataclass(frozen=True, repr=False)
class ComposedLayout:
    """`swizzle o offset o layout`: coordinate c goes to swizzle(offset + layout(c)).

    With a `SmemPtr` as offset the swizzle is one of byte addresses; the result still counts elements.
    CUTLASS include/cute/layout_composed.hpp, swizzle_layout.hpp.
    """

    swizzle: Swizzle
    offset: int | SmemPtr
    layout_b: Layout

    @property
    def shape(self) -> IntTuple:
        """The shape of the layout within."""
        return self.layout_b.shape

    def __call__(self, *coordinate: Coordinate) -> Any:
        """The index of a coordinate, or a sub-layout, as `Layout` does it; the offset of a slice stays inside.

        Raises layout-algebra.coordinate and layout-algebra.element-width.
        """
        kept, start = self.layout_b.slice_and_offset(*coordinate)
        if kept.shape == ():
            plain = self.in_elements()
            return plain.swizzle(plain.offset + start)
        if isinstance(start, int) and start == 0:
            return replace(self, layout_b=kept)
        plain = self.in_elements()
        return replace(plain, layout_b=kept, offset=plain.offset + start)

    def in_elements(self) -> ComposedLayout:
        """The same function with a swizzle of element indices in place of bytes: CuTe's position-independent layout.

        Raises layout-algebra.element-width where the width is not known or no power of two.
        """
        if not isinstance(self.offset, SmemPtr):
            return self
        bits = self.offset.bits
        if bits is None or bits < 1 or bits & (bits - 1):
            ELEMENT_WIDTH.fail(layout=self, known="a width that is not given" if bits is None else f"{bits} bits")
        wider = bits >= BYTE_BITS
        cast = self.swizzle.upcast(bits // BYTE_BITS) if wider else self.swizzle.downcast(BYTE_BITS // bits)
        return ComposedLayout(cast, 0, self.layout_b)

    def offsets(self) -> list[int]:
        """The indices of all coordinates, in the order of the coordinate as one integer."""
        plain = self.in_elements()
        assert isinstance(plain.offset, int)
        start, shift, mask = plain.offset, plain.swizzle.shift, plain.swizzle.source_mask
        indices = [start + index for index in plain.layout_b.offsets()] if start else plain.layout_b.offsets()
        if shift >= 0:
            return [index ^ (index & mask) >> shift for index in indices]
        return [index ^ (index & mask) << -shift for index in indices]

    def reach(self) -> int:
        """One more than the largest index, where there are very many rounded up to a period of the swizzle."""
        plain = self.in_elements()
        assert isinstance(plain.offset, int)
        period = plain.swizzle.period
        if not plain.offset and _is_compact(plain.layout_b) and product(plain.shape) % period == 0:
            return product(plain.shape)  # each index once, and a swizzle exchanges those of one period
        if product(plain.shape) <= _COUNTED:
            return max(plain.offsets()) + 1
        return -(-(plain.offset + cosize(plain.layout_b)) // period) * period

    def svg(self) -> str:
        """A picture as `Layout.svg` makes one, of the swizzled indices. Raises layout-algebra.element-width."""
        return drawn(str(self), self.shape, self.offsets)

    def _repr_svg_(self) -> str:
        return self.svg()

    def with_layout(self, function: Callable[[Layout], Layout]) -> ComposedLayout:
        """The same swizzle and offset after `function` of the layout within."""
        return replace(
            self, layout_b=run_callback("ComposedLayout.with_layout", function, self.layout_b, gives=(Layout,))
        )

    def _recast_offset(self, factor: int, *, wider: bool) -> int | SmemPtr:
        """The offset for elements `factor` times as wide, or as narrow. Raises layout-algebra.recast."""
        if factor < 1:
            RECAST.fail(what=self, factor=factor, scale="wide", problem="that is not a width")
        if isinstance(self.offset, SmemPtr):
            bits = self.offset.bits
            if bits is None or wider:
                return SmemPtr(bits and bits * factor)
            if bits % factor:
                RECAST.fail(what=self, factor=factor, scale="narrow", problem=f"its elements have {bits} bits")
            return SmemPtr(bits // factor)
        if wider and self.offset % factor:
            RECAST.fail(what=self, factor=factor, scale="wide", problem=f"it begins at element {self.offset}")
        return self.offset // factor if wider else self.offset * factor

    def flagged(self) -> str:
        """As CUTLASS prints it, with the element's width: `Sw<3,4,3> o smem_ptr[16b](unset) o (_8,_64):(_64,_1)`."""
        middle = self.offset.flagged() if isinstance(self.offset, SmemPtr) else text(self.offset)
        return f"{self.swizzle} o {middle} o {self.layout_b}"

    def __str__(self) -> str:
        return f"{self.swizzle} o {text(self.offset)} o {self.layout_b}"

    def __repr__(self) -> str:
        return f"ComposedLayout({self.swizzle!r}, {self.offset!r}, {self.layout_b!r})"


def _is_compact(layout: Layout) -> bool:
    """Whether the indices of a layout are 0, 1, 2, ..., each once."""
    covered = 1
    modes = zip(leaves(layout.stride), leaves(layout.shape), strict=True)
    steps = [(stride, extent) for stride, extent in modes if not (isinstance(extent, int) and extent == 1)]
    if not all(isinstance(stride, int) and isinstance(extent, int) for stride, extent in steps):
        return False
    for stride, extent in sorted(steps):
        if stride != covered:
            return False
        covered *= extent
    return True


AnyLayout: TypeAlias = Layout | ComposedLayout
"""A layout, swizzled or not."""


@user_facing
def cosize(a: AnyLayout) -> int:
    """One more than the largest index of a layout: the elements of memory that it needs. A swizzle is not counted.

    Raises layout-algebra.run-time.
    """
    layout = a if isinstance(a, Layout) else a.layout_b
    must_be_known(layout, "the cosize")
    steps = zip(leaves(layout.shape), leaves(layout.stride), strict=True)
    return 1 + sum((extent - 1) * stride for extent, stride in steps if stride > 0)
