"""Tiles that a tensor copy fills with one swizzle, and a matrix descriptor reads with another."""

from __future__ import annotations

from collections.abc import Iterator

from nvbackend.diagnostics import Diagnostic, DiagnosticError, Rule
from nvbackend.intrinsics.smem_descriptor import SmemDescriptor, Swizzle
from nvbackend.intrinsics.tcgen05_descriptor import Tcgen05SmemDescriptor, Tcgen05Swizzle
from nvbackend.isel import facts
from nvbackend.isel.machine import MachineFunction, MachineInstr, MemoryTouch, MemoryUse
from nvbackend.isel.memory_uses import address_use
from nvbackend.isel.packed_words import decoder

SWIZZLE = Rule(
    id="descriptor.swizzle",
    message="{operand} of {instruction} is read from {memory} with {read}, and every copy that fills {memory} has "
    "{filled}",
    fix="make the tile of the layout that the tensor map has, or the map with swizzle={span}",
    why="Rows of 16 bytes come from one another's places: wrong results, no fault.",
    reference="PTX ISA 5.5.7 (swizzling modes), 9.7.15.5.1.2 (shared memory layout)",
)
_FENCE = "fence.proxy.async"
_SPANS = {
    Tcgen05Swizzle.NONE: Swizzle.NONE.span,
    Tcgen05Swizzle.B32: Swizzle.B32.span,
    Tcgen05Swizzle.B64: Swizzle.B64.span,
    Tcgen05Swizzle.B128: Swizzle.B128.span,
}
_WRITES = (MemoryUse.WRITE, MemoryUse.ASYNC_WRITE)
Fills = dict[int, list[MachineInstr]]
"""By the id of an allocation: what writes to it."""


def check_swizzles(function: MachineFunction) -> list[Diagnostic]:
    """descriptor.swizzle for each allocation and swizzle that it is read with, at the first read in the text.

    Silent where ordinary code may rearrange what a copy brought, for which it needs a proxy fence; where the place of
    some asynchronous write is not known; and of maps without a swizzle, whose bytes may lie as the descriptor says in
    global memory already.
    """
    if "attached" in function.attributes or any(map(_is_fence, function.instructions())):
        return []
    reads = [(instr, *read) for instr in function.instructions() if instr.words for read in _reads(instr)]
    fills = _fills(function) if reads else None
    if fills is None:
        return []
    found: dict[tuple[int, int], Diagnostic] = {}
    for instr, touch, span in reads:
        writers = fills.get(touch.object.id, [])
        spans = {writer.facts.get(facts.SWIZZLE, 0) for writer in writers}
        if writers and 0 not in spans and span not in spans:
            found.setdefault((touch.object.id, span), _diagnostic(instr, touch, span, writers))
    return list(found.values())


def _is_fence(instr: MachineInstr) -> bool:
    return instr.row is not None and instr.row.ptx.startswith(_FENCE)


def _reads(instr: MachineInstr) -> Iterator[tuple[MemoryTouch, int]]:
    """What the instruction reads by a descriptor, with the span of its swizzle in bytes where that is known."""
    for touch in instr.memory:
        word = _decoded(instr, touch.operand)
        if isinstance(word, SmemDescriptor):
            yield touch, word.swizzle.span
        elif isinstance(word, Tcgen05SmemDescriptor) and word.swizzle in _SPANS:
            yield touch, _SPANS[word.swizzle]


def _decoded(instr: MachineInstr, operand: str) -> object:
    """The descriptor in `operand`; None where there is none, or one with bits that mean nothing."""
    decode = decoder(instr, operand)
    if decode is None or operand not in instr.words:
        return None
    try:
        return decode(instr.words[operand])
    except DiagnosticError:
        return None  # told by the check of packed words


def _fills(function: MachineFunction) -> Fills | None:
    """All writes to allocations; None where an asynchronous one goes to a place that is not known."""
    found: Fills = {}
    for instr in function.instructions():
        written = {touch.operand: touch.object for touch in instr.memory if touch.use in _WRITES}
        if instr.row is not None and any(
            address_use(instr.row, one) is MemoryUse.ASYNC_WRITE and one.name not in written
            for one in instr.row.operands
        ):
            return None
        for one in written.values():
            found.setdefault(one.id, []).append(instr)
    return found


def _diagnostic(instr: MachineInstr, touch: MemoryTouch, span: int, writers: list[MachineInstr]) -> Diagnostic:
    return SWIZZLE.diagnose(
        at=instr.location,
        notes=(("it is filled here", writers[0].location),),
        operand=touch.operand,
        instruction=instr.opcode,
        memory=touch.object.name,
        read=_mode(span),
        filled=" or ".join(_mode(one) for one in sorted({writer.facts[facts.SWIZZLE] for writer in writers})),
        span=span,
    )


def _mode(span: int) -> str:
    return f"the swizzle of {span} bytes" if span else "no swizzle"
