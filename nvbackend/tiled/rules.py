"""The rules of tiled MMAs: what an atom can be laid over, and what can be cut with it."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

_TILED = "CUTLASS include/cute/atom/mma_atom.hpp (TiledMMA)"
_GEMM = "CUTLASS include/cute/algorithm/gemm.hpp"

ATOM_LAYOUT = Rule(
    id="tiled-mma.atom-layout",
    message="atoms laid out as {given}: {problem}",
    fix="say how many atoms there are along M, N and K, such as (2, 1, 1), or give a layout that numbers them along "
    "one dimension after the other",
    why="Two atoms would be multiplied by the same threads, which have registers for one.",
    reference=_TILED,
)
PERMUTATION = Rule(
    id="tiled-mma.permutation",
    message="permutation {given} of {dimension} for {mma}: {problem}",
    fix="{instead}",
    why="Elements would be multiplied twice, or left out.",
    reference=_TILED,
)
TILE = Rule(
    id="tiled-mma.tile",
    message="{operand} of {given} is not filled by {mma}, which takes {step} at a time",
    fix="use a tile of {nearest}{elements}, or another atom, atom layout or permutation",
    why="A part of the tile would be left out, or memory after it multiplied.",
    reference=_TILED,
)
THREAD = Rule(
    id="tiled-mma.thread",
    message="thread {given} takes no part in {mma}: {problem}",
    fix="{instead}",
    why="It would be given the elements of another thread.",
    reference=_TILED,
)
FRAGMENT = Rule(
    id="tiled-mma.fragment",
    message="no fragment of {operand} of {mma} can be made of {given}: {problem}",
    fix="{instead}",
    why="The instruction would read other elements than those meant.",
    reference=_TILED,
)
TENSOR_MEMORY = Rule(
    id="tiled-mma.tensor-memory",
    message="{operand} of {given} takes {columns} columns of tensor memory, of which there are {most}",
    fix="make the tile smaller, or multiply it in parts",
    why="The accumulators would overlap.",
    reference="PTX ISA 9.7.16.1 (tensor memory); CUTLASS include/cute/atom/mma_traits_sm100_frag.hpp",
)
GEMM = Rule(
    id="tiled-mma.gemm",
    message="{a}, {b} and {c} are not fragments of one multiplication: {problem}",
    fix="{instead}",
    why="Instructions would be issued for parts that do not belong together.",
    reference=_GEMM,
)
OPERAND = Rule(
    id="tiled-mma.operand",
    message="{given!r} is not an operand of a multiplication",
    fix="name A, B or C; D is where C is",
    why="There would be nothing to show.",
    reference=_TILED,
)
