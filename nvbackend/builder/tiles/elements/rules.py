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
    message="the {axis}s of {tile} are spread over several warps",
    fix="lay the atoms along {along} alone, such as atom_layout={layout}; or store the tile to shared memory, and "
    "after k.barrier.sync() let each thread combine whole {axis}s",
    why="Lanes exchange values within their warp only, so each would have the result of a part of the {axis}.",
    reference="PTX ISA 9.7.9 (shfl.sync)",
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
