"""Bytes that are announced without an arrival: the phase must not end before."""

from __future__ import annotations

from nvbackend.dry_run import rules
from nvbackend.dry_run.findings import ACCOUNTING
from nvbackend.dry_run.objects.mbarriers import Mbarrier
from nvbackend.dry_run.order.naming import in_rounds, instruction, line
from nvbackend.dry_run.protocols.state import State


def announced_in_time(state: State, barrier: Mbarrier) -> None:
    """Report bytes of the phase that has just ended, if no arrival of it certainly comes after they were announced.

    Other bytes may keep a phase open until their copies are issued, so nothing is said where several announce some.
    """
    announced = [one for one in barrier.last if one.expected]
    if len(announced) != 1 or not (bit := announced[0].announced):
        return
    arrivals = [one for one in barrier.last if one.arrivals]
    if not arrivals or any(one.seen & bit or not one.seen for one in arrivals):
        return
    late = announced[0]
    before = next((one for one in arrivals if (one.cta, one.warp) == (late.cta, late.warp)), arrivals[-1])
    state.findings.add(
        *(ACCOUNTING, barrier.name, rules.ANNOUNCED_LATE, late.instr),
        ((f"{instruction(before.instr)} of warp {before.warp} arrives in the phase", before.instr.location),),
        now=in_rounds(late.rounds), warp=late.warp, bytes=late.expected, barrier=state.named(barrier),
        phase=barrier.phase - 1, line=line(before.instr), late=line(late.instr),
    )  # fmt: skip
