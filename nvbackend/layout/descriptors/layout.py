"""The layout that a matrix descriptor addresses: the inverse of making a descriptor of a layout."""

from __future__ import annotations

from nvbackend.diagnostics import raise_all, user_facing
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.intrinsics.words.majors import Major
from nvbackend.intrinsics.words.smem_descriptor import SmemDescriptor
from nvbackend.intrinsics.words.tcgen05_descriptor import Tcgen05SmemDescriptor
from nvbackend.layout.algebra.composed import BYTE_BITS, ComposedLayout
from nvbackend.layout.algebra.layout import Layout
from nvbackend.layout.descriptors.canonical import FORMS, CanonicalForm, Stride
from nvbackend.layout.descriptors.descriptor import BASE_OFFSET_UNIT
from nvbackend.layout.descriptors.iterator import Descriptor
from nvbackend.layout.descriptors.operand import Reader, operand_faults
from nvbackend.layout.descriptors.rules import LEADING_ADDRESS, SWIZZLE_MODE


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
    plain, kind = Layout(shape), type(descriptor)
    raise_all(operand_faults(major, plain, element, kind))
    form = _form(major, descriptor)
    raise_all(Reader(form, element, f"{shape[0]} x {shape[1]} elements").extent_faults(plain, kind))
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
