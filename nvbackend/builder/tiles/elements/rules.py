"""The rules of values with coordinates."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

_LAYOUT = "PTX ISA 9.7.14.5 and 9.7.15.5.1 (register fragments)"

OTHER = Rule(
    id="elements.other",
    message="{left} together with {right}: {problem}",
    fix="{instead}",
    why="Elements of different places would be combined.",
    reference=_LAYOUT,
)
ROWS = Rule(
    id="elements.lanes",
    message="several threads have the same elements of a {axis} of a {tile} tile: partial sums along K",
    fix="lay the atoms along M and N alone: atom_layout=(2, 2, 1)",
    why="An element would be counted several times, before mma.reduce(acc) has made a sum of its parts.",
    reference=_LAYOUT,
)
OPERAND = Rule(
    id="elements.operand",
    message="{tile} cannot be A of {mma} without an exchange between threads: {problem}",
    fix="{instead}",
    why="The instruction would multiply the elements of other rows or columns.",
    reference=_LAYOUT,
)
ELEMENT = Rule(
    id="elements.type",
    message="a function of {count} elements gives {given}",
    fix="give a value of one type for every element, such as .to(nvb.f32) or k.const(0, nvb.f32)",
    why="A tile has one element type.",
    reference=_LAYOUT,
)
