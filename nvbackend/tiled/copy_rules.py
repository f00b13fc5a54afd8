"""The rules of copy atoms, tiled copies and the boxes of TMA."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

_TILED = "CUTLASS include/cute/atom/copy_atom.hpp"

WIDTH = Rule(
    id="copy.width",
    message="no {instruction} moves {given}",
    fix="use one of {legal}",
    why="The instruction does not exist.",
    reference="PTX ISA 9.7.9 (ld, st, cp.async), 9.7.14 (ldmatrix, stmatrix)",
)
ELEMENT = Rule(
    id="copy.element",
    message="{atom} cannot be read as a copy of {element}: {problem}",
    fix="copy elements of {wanted} bits with it, or take another atom",
    why="A thread would hold parts of elements, whose other parts another thread has.",
    reference=_TILED,
)
THREADS = Rule(
    id="copy.threads",
    message="threads: {threads}, values of each: {values}; these are not whole instructions of {atom}, which takes "
    "threads: {atom_threads}, values of each: {atom_values}",
    fix="give a multiple of {atom_threads} x {atom_values} (threads x values), or take a smaller atom",
    why="An instruction would move elements that the layout gives to no thread.",
    reference=_TILED,
)
TILE = Rule(
    id="copy.tile",
    message="threads {thr_layout} with values {val_layout} do not cover a tile: {covered} of {wanted} places are named",
    fix="give compact layouts, such as Layout((16, 8), (8, 1)) and Layout((1, 8))",
    why="Two threads would have one element, or none would.",
    reference=_TILED,
)
FRAGMENT = Rule(
    id="copy.fragment",
    message="a fragment {layout} cannot be retiled for {atom}: {problem}",
    fix="retile what the tiled MMA partitioned, with the tiled copy that was made of it",
    why="The copy would take a thread's registers for other elements.",
    reference=_TILED,
)
VECTOR = Rule(
    id="copy.vector",
    message="{atom} moves {wanted} elements at once, and a thread's elements in {which} lie at {layout}: {run} of them "
    "follow each other",
    fix="take {nearest}, or let each thread have {wanted} neighbours of the contiguous dimension",
    why="One instruction moves bytes that follow each other; elements that lie between would be moved instead.",
    reference="PTX ISA 9.7.9.8 (ld)",
)
ALIGNMENT = Rule(
    id="copy.alignment",
    message="{atom} takes addresses of {which} that are multiples of {wanted} bytes, and this tensor's are only known "
    "to be multiples of {given}",
    fix="{instead}",
    why="The hardware faults on an address that is not a multiple of what it accesses.",
    reference="PTX ISA 9.7.9.8 (ld), 9.7.9 (cp.async), 9.7.14 (ldmatrix)",
)
BOX = Rule(
    id="copy.box",
    message="no TMA copy fills {layout}: {problem}",
    fix="{instead}",
    why="A box arrives in shared memory as it is, without gaps, its innermost dimension first.",
    reference="PTX ISA 5.5 (tensors), CUDA driver API (cuTensorMapEncodeTiled)",
)
MULTICAST = Rule(
    id="copy.multicast",
    message="CTA {cta} of {count} cannot load a part of a tile of {boxes} boxes of {box}: {problem}",
    fix="{instead}",
    why="A part of the tile would never be loaded, or twice.",
    reference="PTX ISA 9.7.9 (cp.async.bulk.tensor, .multicast::cluster)",
)
