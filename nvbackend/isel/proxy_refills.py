"""Tiles that are filled again while the multiplies of other warps may read them: no barrier of threads between.

`wgmma.wait_group` is for the thread's own warp. A thread that multiplied and then fills the tile again, itself or by a
copy, must have met the other warps in between. Only what a thread certainly does in this order counts, and only where
on no way from one to the other stands anything that threads could meet at.
"""

from __future__ import annotations

from collections.abc import Iterator

from nvbackend.diagnostics import Diagnostic
from nvbackend.isel import facts
from nvbackend.isel import proxy_protocol_rules as rules
from nvbackend.isel.loops import Loops
from nvbackend.isel.machine import MachineFunction, MachineInstr, MemoryUse
from nvbackend.isel.mbarrier_uses import ATTACHED
from nvbackend.isel.proxy_accesses import Kind
from nvbackend.isel.proxy_protocol import find_meetings, reduce_function, unordered, waits_are_wrong
from nvbackend.isel.proxy_protocol_state import WAITS, Event, Meeting

_WGMMA = "wgmma.mma_async"
_READ_BY_EVERY_WARP = "b_desc"
_MEETINGS = (
    "bar.",
    "barrier.",
    "mbarrier.try_wait",
    "mbarrier.test_wait",
    "fence",
    "membar",
    "atom",
    "red.",
    "multimem",
)
"""What threads meet at, or could have a protocol of their own with."""
_NO_MEETINGS = ("bar.warp.sync", "fence.proxy.async.", "fence.mbarrier_init")
_WRITES = (MemoryUse.WRITE, MemoryUse.ASYNC_WRITE)


def check_refills(function: MachineFunction) -> list[Diagnostic]:
    """Every access that fills again what multiplies in front of it read, and other warps' may still.

    What one barrier puts right is told once.
    """
    if not _may_refill(function) or function.attributes.get(ATTACHED):
        return []
    meetings = list(_refills(function))
    if not meetings or waits_are_wrong(function):
        return []
    if any(meeting.first.kind is Kind.MULTIPLY for meeting in find_meetings(reduce_function(function))):
        return []  # this warp's own multiplies are not waited for: told there
    causes: dict[tuple[str, str], Meeting] = {}
    for meeting in meetings:
        causes.setdefault((meeting.first.site.block, meeting.second.site.block), meeting)
    return [_diagnose(meeting) for meeting in causes.values()]


def _may_refill(function: MachineFunction) -> bool:
    multiplied, filled = set(), set()
    for instr in function.instructions():
        for touch in instr.memory:
            if instr.opcode == _WGMMA:
                multiplied.add(touch.object)
            elif touch.use in _WRITES:
                filled.add(touch.object)
    return not multiplied.isdisjoint(filled)


def _refills(function: MachineFunction) -> Iterator[Meeting]:
    meetings = list(unordered(reduce_function(function, _order), frozenset({Kind.MULTIPLY})))
    if not meetings:
        return
    loops = Loops(function)
    for meeting in meetings:
        if loops.regular and _concerns_all_warps(meeting) and _follows(loops, meeting):
            yield meeting


def _order(instr: MachineInstr) -> Event | None:
    """Where threads meet, all that was read before is done."""
    spelling = instr.opcode if instr.row is None else instr.row.ptx
    meets = spelling.startswith(_MEETINGS) and not f"{spelling}.".startswith(_NO_MEETINGS)
    return Event(WAITS[Kind.MULTIPLY]) if meets else None


def _concerns_all_warps(meeting: Meeting) -> bool:
    """Whether every warp reads what is filled: a warp may fill the rows of A that are its own."""
    if any(touch.operand == _READ_BY_EVERY_WARP for _, touch in meeting.first.accesses):
        return True
    return all(site.instr.facts.get(facts.THREADS) == 1 for site, _ in meeting.second.accesses)


def _follows(loops: Loops, meeting: Meeting) -> bool:
    """Whether a thread that fills has multiplied before: always, or in each round of the loop that both are in."""
    reader, writer = meeting.first.site.block, meeting.second.site.block
    if loops.dominates(reader, writer) and meeting.first.site.position < meeting.second.site.position:
        return True
    loop = loops.innermost(writer)
    return loop is not None and reader in loop.blocks and loops.every_round(loop, reader)


def _diagnose(meeting: Meeting) -> Diagnostic:
    first, second = meeting.first.site.instr, meeting.second.site.instr
    line = f" of line {first.location.line}" if first.location else ""
    return rules.REFILL.diagnose(
        at=second.location,
        notes=(("it is read from here on", first.location),),
        writer=f"the {second.opcode}",
        reader=f"the {first.opcode}{line}",
        memory=f"shared memory {meeting.first.object.name}",
    )
