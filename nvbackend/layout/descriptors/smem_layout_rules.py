"""The rules on operand tiles in shared memory, each used by `smem_layout`."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

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
