"""Tiles that are filled with one swizzle and read with another: by copies, descriptors, and addresses of a layout."""

from __future__ import annotations

from collections.abc import Iterator

from nvbackend.diagnostics import Diagnostic, DiagnosticError, Rule
from nvbackend.intrinsics.words.smem_descriptor import SmemDescriptor, SwizzleMode
from nvbackend.intrinsics.words.tcgen05_descriptor import Tcgen05SmemDescriptor, Tcgen05Swizzle
from nvbackend.isel.flow.memory_uses import writes_elsewhere
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineFunction, MachineInstr, MemoryTouch, MemoryUse, decoder

SWIZZLE = Rule(
    id="descriptor.swizzle",
    message="{operand} of {instruction} is read from {memory} with {read}, and everything that fills {memory} has "
    "{filled}",
    fix="read the tile by the layout that it was written by: the same swizzle in the tensor map, the descriptor, and "
    "the layout that addresses are computed from",
    why="Rows of 16 bytes are read from each other's places: wrong results, no fault.",
    reference="PTX ISA 5.5.7 (swizzling modes), 9.7.15.5.1.2 (shared memory layout)",
)
_SPANS = {
    Tcgen05Swizzle.NONE: SwizzleMode.NONE.span,
    Tcgen05Swizzle.B32: SwizzleMode.B32.span,
    Tcgen05Swizzle.B64: SwizzleMode.B64.span,
    Tcgen05Swizzle.B128: SwizzleMode.B128.span,
}
_READS = (MemoryUse.READ, MemoryUse.ASYNC_READ)
_WRITES = (MemoryUse.WRITE, MemoryUse.ASYNC_WRITE)
Fills = dict[int, list[MachineInstr]]
"""By the id of an allocation: what writes to it."""


def check_swizzles(function: MachineFunction) -> list[Diagnostic]:
    """descriptor.swizzle for each allocation and swizzle that it is read with, at the first read in the text.

    Silent of memory that anything fills whose swizzle is not known: ordinary code whose addresses show none, copies by
    maps without one, whose bytes may be swizzled in global memory already; and where the place of some write
    is not known.
    """
    if function.attributes.get("attached"):
        return []
    reads = [(instr, *read) for instr in function.instructions() for read in _reads(instr)]
    fills = _fills(function) if reads else None
    if fills is None:
        return []
    filled = {memory: {writer.facts.get(facts.SWIZZLE, 0) for writer in writers} for memory, writers in fills.items()}
    faults: dict[tuple[int, int], Diagnostic] = {}
    for instr, touch, span in reads:
        key, spans = (touch.object.id, span), filled.get(touch.object.id)
        if spans and 0 not in spans and span not in spans and key not in faults:
            faults[key] = _diagnostic(instr, touch, span, fills[touch.object.id])
    return list(faults.values())


def _reads(instr: MachineInstr) -> Iterator[tuple[MemoryTouch, int]]:
    """What the instruction reads, with the span of its swizzle in bytes where that is known.

    That of a descriptor or a tensor map is, none among them; of an address, which may be computed in many ways, only
    what its arithmetic shows.
    """
    for touch in instr.memory:
        if touch.use not in _READS:
            continue
        word = _decoded(instr, touch.operand)
        if isinstance(word, SmemDescriptor):
            yield touch, word.swizzle.span
        elif isinstance(word, Tcgen05SmemDescriptor) and word.swizzle in _SPANS:
            yield touch, _SPANS[word.swizzle]
        elif instr.facts.get(facts.SWIZZLE):
            yield touch, instr.facts[facts.SWIZZLE]


def _decoded(instr: MachineInstr, operand: str) -> object:
    """The descriptor in `operand`; None without one, or with bits that mean nothing."""
    decode = decoder(instr, operand)
    if decode is None or operand not in instr.words:
        return None
    try:
        return decode(instr.words[operand])
    except DiagnosticError:
        return None  # the check of packed words reports it


def _fills(function: MachineFunction) -> Fills | None:
    """All writes to allocations; None where one goes to a place that is not known."""
    fills: Fills = {}
    for instr in function.instructions():
        if writes_elsewhere(instr):
            return None
        for written in dict.fromkeys(touch.object.id for touch in instr.memory if touch.use in _WRITES):
            fills.setdefault(written, []).append(instr)
    return fills


def _diagnostic(instr: MachineInstr, touch: MemoryTouch, span: int, writers: list[MachineInstr]) -> Diagnostic:
    return SWIZZLE.diagnose(
        at=instr.location,
        notes=(("it is filled here", writers[0].location),),
        operand=touch.operand or "memory",
        instruction=instr.opcode,
        memory=touch.object.name,
        read=_mode(span),
        filled=" or ".join(_mode(swizzle) for swizzle in sorted({writer.facts[facts.SWIZZLE] for writer in writers})),
    )


def _mode(span: int) -> str:
    return f"the swizzle of {span} bytes" if span else "no swizzle"
