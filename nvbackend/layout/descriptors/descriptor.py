"""Matrix descriptors made from layouts: their fields follow from the strides.

A layout is seen in chunks of 16 bytes and divided by the form that its majorness and swizzle allow (`canonical.FORMS`);
the strides of what is left are LBO and SBO.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from nvbackend.diagnostics import Diagnostic, raise_all, user_facing
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.intrinsics.words.majors import Major
from nvbackend.intrinsics.words.smem_descriptor import UNIT, SmemDescriptor
from nvbackend.intrinsics.words.tcgen05_descriptor import Tcgen05SmemDescriptor
from nvbackend.layout.algebra.composed import AnyLayout, ComposedLayout
from nvbackend.layout.algebra.layout import Layout, joined
from nvbackend.layout.descriptors.canonical import CanonicalForm, Stride
from nvbackend.layout.descriptors.iterator import Descriptor, DescriptorIterator
from nvbackend.layout.descriptors.operand import Operand, operand_of
from nvbackend.layout.descriptors.rules import PATTERN
from nvbackend.layout.descriptors.smem_layout_rules import ALIGNMENT

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


def _fields(operand: Operand, address: int) -> _Fields:
    raise_all(_pattern_faults(operand, operand.offset))
    offsets = operand.offsets
    return _Fields(
        operand.form,
        address + operand.offset,
        offsets.get(Stride.LBO, UNIT),
        offsets.get(Stride.SBO, UNIT),
        _base_offset(operand, address),
    )


def _pattern_faults(operand: Operand, offset: int) -> Iterator[Diagnostic]:
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


def _base_offset(operand: Operand, address: int) -> int:
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
