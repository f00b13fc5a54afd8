"""The rules on descriptors made from layouts, and on the iterators over them."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

_ITERATOR = "CUTLASS include/cute/atom/mma_traits_sm90_gmma.hpp (DescriptorIterator)"

INDEX = Rule(
    id="descriptor.index",
    message="coordinate {coordinate} is outside the descriptors of {shape}",
    fix="use indices within the shape, each mode from 0",
    why="The word would point behind the tile: another operand would be multiplied, with no fault.",
    reference=_ITERATOR,
)
NO_BASE = Rule(
    id="descriptor.no-base",
    message="the base of the descriptors of {layout} is {given!r}, which says not where the tile lies",
    fix="give a descriptor or a value such as k.smem_descriptor(tile): iterator.with_base(base)",
    why="The layout says how far the operands lie from the first one, not where that is.",
    reference=_ITERATOR,
)
