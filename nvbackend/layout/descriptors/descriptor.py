"""Matrix descriptors made from layouts, `DescriptorIterator`, and the way back.

A layout is seen in chunks of 16 bytes and divided by the form that its majorness and swizzle allow (`canonical.FORMS`);
the strides of what is left are LBO and SBO. `DescriptorIterator(base, layout)` is CuTe's fragment of an operand in
shared memory, one descriptor word for each instruction: a base descriptor, or None where it is not known yet, and a
layout whose strides count units of 16 bytes, what the address field counts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from nvbackend.diagnostics import Diagnostic, raise_all, user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.types import ElementType, u64
from nvbackend.intrinsics.words.smem_descriptor import UNIT, Major, SmemDescriptor
from nvbackend.intrinsics.words.tcgen05_descriptor import Tcgen05SmemDescriptor
from nvbackend.layout.algebra.inttuple import Coordinate, IntTuple, is_outside, is_run_time, text
from nvbackend.layout.algebra.layout import Layout, is_zero, joined
from nvbackend.layout.algebra.swizzle import BYTE_BITS, AnyLayout, ComposedLayout
from nvbackend.layout.descriptors.operand import (
    FORMS,
    CanonicalForm,
    Descriptor,
    DescriptorOperand,
    FormReader,
    Stride,
    operand_faults,
    operand_of,
)
from nvbackend.layout.descriptors.rules import ALIGNMENT, INDEX, LEADING_ADDRESS, NO_BASE, PATTERN, SWIZZLE_MODE


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
        if not isinstance(units, int) and not hasattr(units, "to"):
            return NotImplemented
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


BASE_OFFSET_UNIT = 128
"""What the base offset counts, bytes: it is bits 7-9 of an address."""


@user_facing
def make_gmma_desc(major: Major, layout: AnyLayout, element: ElementType, *, address: int = 0) -> SmemDescriptor:
    """The wgmma descriptor of one instruction's operand, CuTe's `make_gmma_desc<Major>`.

    `layout` leads from (M or N, K) to elements of shared memory, K as many as one instruction reads (32 bytes, 64 for B
    of a sparse one), any strides that the hardware can follow. Swizzles are those of byte addresses where the offset is
    a `SmemPtr`, else of indices. `address` is the shared address of index 0, in bytes. A stride that the operand does
    not use is 16. Raises layout.element, layout.major, layout.alignment, descriptor.element, descriptor.swizzle-mode,
    descriptor.extent, descriptor.contiguous, descriptor.core-matrix, descriptor.stride, descriptor.pattern,
    descriptor.range, descriptor.alignment, layout-algebra.run-time.
    PTX ISA 9.7.15.5.1.2; CUTLASS include/cute/atom/mma_traits_sm90_gmma.hpp.
    """
    fields = _fields(operand_of(major, layout, element, SmemDescriptor), address)
    assert fields.form.gmma is not None
    return SmemDescriptor(fields.start, fields.leading, fields.stride, fields.base, fields.form.gmma)


@user_facing
def make_umma_desc(major: Major, layout: AnyLayout, element: ElementType, *, address: int = 0) -> Tcgen05SmemDescriptor:
    """The tcgen05 descriptor of one instruction's operand, CuTe's `make_umma_desc<Major>`.

    As `make_gmma_desc`, with tcgen05's codes and version; elements of 8 and 32 bits may be MN-major too, and the 128 B
    swizzle of 32-byte atoms (`Sw<2,5,2>`) is known. Not run on hardware here.
    PTX ISA 9.7.16.4.1; CUTLASS include/cute/atom/mma_traits_sm100.hpp.
    """
    fields = _fields(operand_of(major, layout, element, Tcgen05SmemDescriptor), address)
    return Tcgen05SmemDescriptor(fields.start, fields.leading, fields.stride, fields.base, fields.form.umma)


@user_facing
def smem_desc(
    major: Major,
    layout: AnyLayout,
    element: ElementType,
    *,
    address: int = 0,
    kind: type[Descriptor] = SmemDescriptor,
) -> DescriptorIterator:
    """The descriptors of all operands of a partitioned layout (MMA, rest ...): CuTe's `smem_desc<Major>` of tCsA.

    Mode 0 is one instruction's operand, (M or N, K); the other modes lead from operand to operand, such as (MMA_M,
    MMA_K, PIPE). The first operand's descriptor is as `make_gmma_desc` makes it, or `make_umma_desc` with `kind`
    `Tcgen05SmemDescriptor`. Raises what these raise, for the start of every operand.
    """
    plain, rest = _parts(layout)
    make = make_gmma_desc if kind is SmemDescriptor else make_umma_desc
    base = make(major, plain, element, address=address)
    operand = operand_of(major, plain, element, kind)
    steps = [operand.in_chunks(mode) for mode in rest]
    for place in itertools.product(*(mode.offsets() for mode in steps)):
        raise_all(_pattern_faults(operand, operand.offset + sum(place) * UNIT))
    return DescriptorIterator(base, joined([Layout(1, 0), *steps]))


def _parts(layout: AnyLayout) -> tuple[AnyLayout, tuple[Layout, ...]]:
    """Mode 0, still swizzled, and the other modes, which are not."""
    if isinstance(layout, ComposedLayout):
        return layout.with_layout(lambda inner: inner[0]), layout.layout_b.modes[1:]
    return layout[0], layout.modes[1:]


@dataclass(frozen=True, slots=True)
class _Fields:
    """A descriptor's fields in bytes."""

    form: CanonicalForm
    start: int
    leading: int
    stride: int
    base: int


def _fields(operand: DescriptorOperand, address: int) -> _Fields:
    raise_all(_pattern_faults(operand, operand.offset))
    offsets = operand.offsets
    return _Fields(
        operand.form,
        address + operand.offset,
        offsets.get(Stride.LBO, UNIT),
        offsets.get(Stride.SBO, UNIT),
        _base_offset(operand, address),
    )


def _pattern_faults(operand: DescriptorOperand, offset: int) -> Iterator[Diagnostic]:
    """Why the address bits of an operand that starts `offset` bytes on would run over; nothing without swizzle."""
    form, row = operand.form, operand.form.width * UNIT
    if not form.swizzle.bits:
        return
    place = offset % row
    if offset & form.swizzle.source_mask:
        problem = "starts in the middle of it"
    elif place and place + operand.row_bytes > row:
        problem = f"leaves its row of {row} bytes after {row - place} of {operand.row_bytes}"
    else:
        return
    yield PATTERN.diagnose(offset=offset, swizzle=form.name, problem=problem, period=form.period, row=row)


def _base_offset(operand: DescriptorOperand, address: int) -> int:
    """Where the swizzle pattern starts, if not at a multiple of its period."""
    period = operand.form.period
    unit = period if operand.by_address else math.gcd(period, BASE_OFFSET_UNIT)
    if rest := address % unit:
        ALIGNMENT.fail(
            swizzle=operand.form.name,
            given=address,
            alignment=unit,
            below=address - rest,
            above=address - rest + unit,
        )
    return address % period // BASE_OFFSET_UNIT


@user_facing
def desc_layout(
    major: Major, descriptor: Descriptor, element: ElementType, shape: tuple[int, int]
) -> tuple[int, ComposedLayout]:
    """Where an instruction finds element (M or N, K) of its operand of `shape`: (address, layout).

    The layout counts elements from `address`, a shared address in bytes, where the pattern of the swizzle starts in
    which the operand does; without swizzle the operand starts there. With both, `make_gmma_desc` (`make_umma_desc`)
    gives the descriptor again, apart from offsets that the operand does not use. Raises layout.element, layout.major,
    descriptor.element, descriptor.extent, descriptor.swizzle-mode, descriptor.leading-address.
    PTX ISA 9.7.15.5.1.2; measured on an H200 for wgmma.
    """
    if not isinstance(major, Major):
        raise TypeError("the boundary says which")
    plain, kind = Layout(shape), type(descriptor)
    raise_all(operand_faults(major, plain, element, kind))
    form = _form(major, descriptor)
    raise_all(FormReader(form, element, f"{shape[0]} x {shape[1]} elements").extent_faults(plain, kind))
    if isinstance(descriptor, Tcgen05SmemDescriptor) and descriptor.leading_is_address:
        LEADING_ADDRESS.fail(given=descriptor.leading_byte_offset)
    offsets = {Stride.LBO: descriptor.leading_byte_offset, Stride.SBO: descriptor.stride_byte_offset}
    layout = form.layout(shape, element.bits, offsets)
    inside = (descriptor.start_address - descriptor.base_offset * BASE_OFFSET_UNIT) % form.period
    wide = element.bits >= BYTE_BITS
    recast = form.swizzle.upcast if wide else form.swizzle.downcast
    function = recast(element.bits // BYTE_BITS if wide else BYTE_BITS // element.bits)
    first = inside * BYTE_BITS // element.bits
    return descriptor.start_address - inside, ComposedLayout(function, first, layout)


def _form(major: Major, descriptor: Descriptor) -> CanonicalForm:
    """The form that the descriptor's swizzle has in this majorness. Raises descriptor.swizzle-mode."""
    known = [
        form for form in FORMS if form.major is major and (form.gmma or not isinstance(descriptor, SmemDescriptor))
    ]
    for form in known:
        if descriptor.swizzle in (form.gmma, form.umma):
            return form
    SWIZZLE_MODE.fail(
        layout="the descriptor",
        swizzle=descriptor.swizzle,
        known=", ".join(str(form.swizzle) for form in known),
        major=major,
    )
