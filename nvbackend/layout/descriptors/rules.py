"""The rules on operand tiles in shared memory, on descriptors made from layouts, and on the iterators over them."""

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
    message="the base of the descriptors of {layout} is {given!r}, which does not say where the tile is",
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
    why="LBO and SBO are one number each: from the second core matrix on, other elements would be read.",
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


_LAYOUTS = "PTX ISA 9.7.15.5.1.2 (shared memory matrix layout); measured on an H200"
_DESCRIPTOR = "PTX ISA 9.7.15.5.1.2.2 (matrix descriptor)"

SIZE = Rule(
    id="layout.size",
    message="a tile of {rows} x {columns} {element} takes {bytes} bytes; a descriptor reaches {most}",
    fix="use a smaller tile, and more of them",
    why="The address field of the descriptor would wrap around, and the chip has no such shared memory.",
    reference=_DESCRIPTOR,
)
ROWS = Rule(
    id="layout.rows",
    message="{given} rows: {major} tiles of {element} with {swizzle} swizzle take a positive multiple of {step}",
    fix="use {nearest} rows{other}",
    why="The descriptor's strides step over whole swizzle atoms and core matrices; a part would overlap the next.",
    reference=_LAYOUTS,
)
COLUMNS = Rule(
    id="layout.columns",
    message="{given} columns: {major} tiles of {element} with {swizzle} swizzle take a positive multiple of {step}",
    fix="use {nearest} columns{other}",
    why="The descriptor's strides step over whole swizzle atoms, and an instruction reads 32 bytes of K.",
    reference=_LAYOUTS,
)
ALIGNMENT = Rule(
    id="layout.alignment",
    message="a tile with {swizzle} swizzle starts at shared address {given}, which is not a multiple of {alignment}",
    fix="place it at {below} or {above}; align shared memory to {alignment} bytes",
    why="The swizzle permutes by address bits: TMA and wgmma would disagree about where each chunk lies.",
    reference=_DESCRIPTOR,
)
BOUNDS = Rule(
    id="layout.bounds",
    message="element ({row}, {column}) is outside the tile of {rows} x {columns}",
    fix="use rows 0 to {rows} and columns 0 to {columns}, ends excluded",
    why="The bytes there belong to another tile.",
    reference=_LAYOUTS,
)
ORIGIN = Rule(
    id="layout.origin",
    message="an operand cannot start at ({row}, {column}) of a {layout}: steps are {row_step} and {column_step}",
    fix="start it at multiples of {row_step} rows and {column_step} columns",
    why="A descriptor points at core matrices of 8 rows of 16 bytes; from within one it would read others.",
    reference=_DESCRIPTOR,
)
STRADDLE = Rule(
    id="layout.straddle",
    message="an instruction that reads {axis} {first} to {last} of a {layout} leaves a panel of {panel} {axis}",
    fix="let each instruction stay within one panel, or take a wider swizzle",
    why="The descriptor's strides do not lead from there to the next panel: other elements would be read.",
    reference=_LAYOUTS,
)
STEP = Rule(
    id="layout.step",
    message="steps of {step} {axis} through a {layout}: {problem}",
    fix="{advice}",
    why="A descriptor that is advanced by the wrong distance reads another part of shared memory.",
    reference=_LAYOUTS,
)
ARRAY = Rule(
    id="layout.array",
    message="{what} of shape {shape} with {item} bytes an item for a {layout}: it takes {wanted} with {wanted_item}",
    fix="pass an array of shape {wanted} whose items have {wanted_item} bytes",
    why="The bytes would be put where no instruction looks for them.",
    reference=_LAYOUTS,
)
