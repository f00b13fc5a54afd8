"""The rules on descriptors made from layouts, and on the iterators over them."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

_ITERATOR = "CUTLASS include/cute/atom/mma_traits_sm90_gmma.hpp (DescriptorIterator)"
_CANONICAL = "PTX ISA 9.7.15.5.1.2 (shared memory matrix layout); docs/layout.md, What a descriptor can describe"

INDEX = Rule(
    id="descriptor.index",
    message="coordinate {coordinate} is outside the descriptors of {shape}",
    fix="use indices within the shape, each mode from 0",
    why="The word would point past the tile: another operand would be multiplied, with no fault.",
    reference=_ITERATOR,
)
NO_BASE = Rule(
    id="descriptor.no-base",
    message="the base of the descriptors of {layout} is {given!r}, which says not where the tile lies",
    fix="give a descriptor or a value such as k.wgmma.smem_descriptor(tile): iterator.with_base(base)",
    why="The layout says how far the operands lie from the first one, not where that is.",
    reference=_ITERATOR,
)
ELEMENT = Rule(
    id="descriptor.element",
    message="a descriptor of {element} from {layout}: {problem}",
    fix="{advice}",
    why="The tensor core would read the bytes as elements of another width, or transposed.",
    reference=_CANONICAL,
)
SWIZZLE_MODE = Rule(
    id="descriptor.swizzle-mode",
    message="{layout} swizzles its bytes by {swizzle}; the hardware knows {known} for {major} operands",
    fix="make the layout of gmma_atom(major, swizzle, element), with the swizzle whose row its pitch is",
    why="No code of the descriptor says this swizzle: the chunks would be fetched from other places.",
    reference=_CANONICAL,
)
EXTENT = Rule(
    id="descriptor.extent",
    message="{operand}: {problem}",
    fix="{advice}",
    why="One instruction reads that much; the rest would be left out, or read from what follows.",
    reference=_CANONICAL,
)
CONTIGUOUS = Rule(
    id="descriptor.contiguous",
    message="{operand}: {problem}",
    fix="let {chunk} neighbours along {axis} be neighbours in memory, every other stride a multiple of {chunk}{other}",
    why="The tensor core reads chunks of 16 bytes; their elements would be taken for others.",
    reference=_CANONICAL,
)
CORE_MATRIX = Rule(
    id="descriptor.core-matrix",
    message="{operand}: {what} {given} bytes apart, with {swizzle} swizzle {wanted}",
    fix="lay the tile out as {form}{other}",
    why="The pitch inside a core matrix follows from the swizzle mode alone; no field says it.",
    reference=_CANONICAL,
)
STRIDE = Rule(
    id="descriptor.stride",
    message="{operand}: {what} do not lie at one stride ({found})",
    fix="make the tile of one atom, tile_to_shape(gmma_atom(...), shape): every step along a dimension is alike then",
    why="LBO and SBO are one number each: from the second core matrix on others would be read.",
    reference=_CANONICAL,
)
PATTERN = Rule(
    id="descriptor.pattern",
    message="an operand {offset} bytes after the start of a pattern of {swizzle} swizzle {problem}",
    fix="start operands at whole patterns of {period} bytes, or inside a row of {row} bytes that they do not leave",
    why="The chunks are permuted by address bits, which would run over into the next row: other chunks are read.",
    reference=_CANONICAL,
)
LEADING_ADDRESS = Rule(
    id="descriptor.leading-address",
    message="the layout of a descriptor whose LBO is an address ({given:#x}) is not the layout of one operand",
    fix="ask for that of the descriptor with an LBO that is an offset (leading_is_address=False)",
    why="Its second part lies anywhere, and no stride leads there.",
    reference="PTX ISA 9.7.16.4.1 (shared memory descriptor)",
)
