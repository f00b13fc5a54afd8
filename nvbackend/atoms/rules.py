"""The rules of MMA atoms: their names, and what must hold before one is lowered."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

_CONTRACT = "tileiras documents: MMA atoms, Common Atom Contract"

NAME = Rule(
    id="atom.name",
    message="{given!r} is not the name of an MMA atom",
    fix="use a name as CuTe spells it{nearest}; or, in k.tiled_mma, a request such as "
    'nvb.mma.sync("m16n8k16", nvb.f16, nvb.f16, nvb.f32)',
    why="An atom that is read wrongly multiplies other elements.",
    reference="CUTLASS include/cute/arch/mma_sm*.hpp",
)
NOT_HERE = Rule(
    id="atom.not-here",
    message="{given!r} is not an MMA atom here: {problem}",
    fix="{instead}",
    why="An atom is one matrix instruction; what it is given at a call is not in its name.",
    reference="CUTLASS include/cute/arch/mma_sm*.hpp",
)
BLAS = Rule(
    id="atom.blas",
    message="{given!r} does not say how A and B are stored",
    fix="write a letter for A and one for B: TN (both K-major), NT (both MN-major), NN or TT",
    why="An operand that is read along the other dimension is its transpose.",
    reference="CUTLASS documentation, CuTe MMA atoms",
)
ROW = Rule(
    id="atom.row",
    message="{row} makes no MMA atom: {problem}",
    fix="{instead}",
    why="What the row leaves open decides which elements are multiplied.",
    reference="CUTLASS include/cute/atom/mma_traits.hpp",
)
OPERAND = Rule(
    id="atom.operand",
    message="{atom} has no {given}",
    fix="draw one of {has}",
    why="There is nothing that the picture could show.",
    reference="CUTLASS include/cute/atom/mma_traits.hpp",
)
TARGET = Rule(
    id="atom.target",
    message="{atom} needs another chip or PTX version than {target} with PTX {version}",
    fix="compile for {instead}, with PTX {first} or later",
    why="ptxas refuses the instruction; LLVM ends the process where it cannot select it.",
    reference=_CONTRACT,
)
SHAPE = Rule(
    id="atom.shape",
    message="a tile of {given} is not a multiple of {atom}, which is {shape}",
    fix="use a tile of {nearest}, or another atom",
    why="Elements of another tile would be multiplied, or some of this one left out.",
    reference=_CONTRACT,
)
TYPES = Rule(
    id="atom.types",
    message="{operand} of {atom} is {expected}, not {given}",
    fix="give it {expected}, or take an atom of {given}",
    why="The bits would be read as another type's.",
    reference=_CONTRACT,
)
RESIDENCY = Rule(
    id="atom.residency",
    message="{operand} of {atom} is in {expected}, not in {given}",
    fix="bring it into {expected} first, or take an atom that has it in {given}",
    why="The instruction would take an address for a value, or a value for an address.",
    reference=_CONTRACT,
)
METADATA = Rule(
    id="atom.metadata",
    message="{atom} takes {wanted} metadata, and was given {given}",
    fix="{instead}",
    why="Without the places of its elements a sparse A is another matrix.",
    reference=_CONTRACT,
)
SCALE_FACTORS = Rule(
    id="atom.scale-factors",
    message="the scale factors of {operand} of {atom} are {expected}, not {given}",
    fix="give {operand} {expected}",
    why="Blocks of the operand would be multiplied with other powers than theirs.",
    reference=_CONTRACT,
)
LAYOUT = Rule(
    id="atom.layout",
    message="{given} is not the layout of {operand} of {atom}: {problem}",
    fix="{instead}",
    why="Threads would have other elements in their registers than the instruction multiplies.",
    reference="tileiras documents: MMA atoms, Operand Layout Grammar",
)
