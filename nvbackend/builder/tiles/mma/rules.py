"""The rules of tiled MMAs in the builder: what they are made of, who works on which part, what is added in the end."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

_WARPGROUPS = "PTX ISA 9.7.15 (warpgroups)"
_TILED = "CUTLASS include/cute/atom/mma_atom.hpp (TiledMMA)"

INSTRUCTION = Rule(
    id="mma.tiled",
    message="{given} cannot be laid over tiles: {problem}",
    fix="{instead}",
    why="Which instruction multiplies a tile, or which thread holds what, would be undecided.",
    reference=_TILED,
)
WARPGROUPS = Rule(
    id="mma.warpgroups",
    message="warpgroups = {given!r} is not how many there are along M and along N",
    fix="give a pair of positive integers, such as (2, 1)",
    why="There would be no tile, or one that no warpgroup works on.",
    reference=_WARPGROUPS,
)
THREADS = Rule(
    id="mma.threads",
    message="{count} atoms of {atom} are multiplied by {threads} threads; a CTA has {most} at most",
    fix="lay fewer atoms over threads, and more over the tile: tile=(M, N)",
    why="No CTA could work on the tile.",
    reference="CUDA C++ Programming Guide, compute capabilities: threads of a block",
)
WARPGROUP = Rule(
    id="mma.warpgroup",
    message="the call gives {given} for a tile of {along} warpgroups",
    fix="pass a number from 0 to {last}, as in acc.elements(warpgroup): k.consumers(...) yields that of each",
    why="It would work on the tile of another warpgroup, and a part of the result would never be computed.",
    reference=_WARPGROUPS,
)
WARPGROUPS_THERE = Rule(
    id="mma.warpgroups-there",
    message="a tile of {along} warpgroups is multiplied by {there} consumer warpgroup(s)",
    fix="make it with k.tiled_mma(..., warpgroups=({there}, 1)), or give the kernel {wanted} consumer warpgroups",
    why="The parts of the tile that belong to the missing warpgroups would never be computed.",
    reference=_WARPGROUPS,
)
ACCUMULATORS = Rule(
    id="mma.tile-accumulators",
    message="{given} for the {wanted} accumulators that a warpgroup has in a tile of {tile} by {mma}",
    fix="{instead}",
    why="A part of the tile would be computed nowhere, or into the accumulator of another part.",
    reference=_TILED,
)
REGISTERS = Rule(
    id="mma.tile-registers",
    message="A in registers for {mma}: {problem}",
    fix="{instead}",
    why="The instruction would multiply the elements of another row or column.",
    reference="PTX ISA 9.7.15.5.1.1 (wgmma register fragments)",
)
PARTS = Rule(
    id="mma.tile-parts",
    message="there is nothing to add: {mma} has {parts} part(s) along K",
    fix="{instead}",
    why="The sum would be of registers that hold other elements, or nothing.",
    reference=_TILED,
)
TENSOR_MEMORY = Rule(
    id="mma.tile-columns",
    message="{given} columns of tensor memory for the {wanted} that the accumulators of {mma} take",
    fix="allocate mma.columns, here {alloc}",
    why="The accumulators would run over into columns of another allocation.",
    reference="PTX ISA 9.7.16.1 (tensor memory)",
)
LANES = Rule(
    id="mma.tile-lanes",
    message="columns {first} to {last} of {mma} over a tile of {tile} cannot be loaded as rows: {problem}",
    fix="{instead}",
    why="A thread reads one lane of tensor memory, and its elements would be of other rows or columns.",
    reference="PTX ISA 9.7.16.10.5 (data path layouts)",
)
WARP_ATOM = Rule(
    id="warp-mma.atom",
    message="the warps of this kernel cannot multiply with {mma}: {problem}",
    fix="{instead}",
    why=(
        "The instruction would need threads that do not exist, or the sums would have another type than the products."
    ),
    reference="PTX ISA 9.7.14.5 (mma)",
)
WARP_FRAGMENT = Rule(
    id="warp-mma.fragment",
    message="{what} of {mma}: {problem}",
    fix="{instead}",
    why="Registers of other elements would be multiplied.",
    reference="PTX ISA 9.7.14.5 (fragments)",
)
OPERAND_A = Rule(
    id="mma.tile-operand",
    message="A in tensor memory for {mma}: {problem}",
    fix="{instead}",
    why="The instruction would multiply what it does not have, or write over columns of another tile.",
    reference="PTX ISA 9.7.16.2.3.1, 9.7.16.10.5 (matrices in tensor memory)",
)
