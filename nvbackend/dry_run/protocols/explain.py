"""Why two accesses are unordered: the rule, and the wait that passed too early."""

from __future__ import annotations

from nvbackend.diagnostics import Rule
from nvbackend.dry_run import rules
from nvbackend.dry_run.order import memory
from nvbackend.dry_run.order.extents import Outside
from nvbackend.dry_run.order.record import Part, Record
from nvbackend.dry_run.order.words import access, after_rounds, in_rounds, instruction
from nvbackend.dry_run.protocols.findings import ACCOUNTING, ORDER, PARITY, Findings
from nvbackend.dry_run.protocols.findings import UNWRITTEN as NOBODY
from nvbackend.dry_run.protocols.mbarriers import Mbarrier, Wait
from nvbackend.dry_run.protocols.state import State
from nvbackend.isel.machine.function import MachineInstr, MemoryObject

_COPY = "cp.async"


class Explain:
    """Turns conflicts into findings."""

    def __init__(self) -> None:
        self.state: State | None = None

    @property
    def _findings(self) -> Findings:
        assert self.state is not None
        return self.state.findings

    def conflict(self, first: Record | None, second: Record, part: Part, cta: int, address: int, why: str) -> None:
        """Two unordered accesses, or a read of unwritten bytes."""
        state = self.state
        if state is None or state.findings.lost:
            return
        name = state.memory.where(part, address)
        where = name if state.launch.ctas == 1 else f"{name} of CTA {cta}"
        said = {"now": in_rounds(second.rounds), "second": _who(second, part), "memory": where}
        if first is None:
            self._findings.add(NOBODY, "", rules.UNWRITTEN, part.instr, (), byte=address, cta=cta, **said)
            return
        earlier = first.part_at(address, 1 << state.memory.shift(cta))
        notes = ((f"{access(first, earlier)}", earlier.instr.location),)
        if why == memory.UNFENCED:
            self._findings.add(
                ORDER, name, rules.MISSING_FENCE, part.instr, notes, first=_who(first, earlier, True), **said
            )
            return
        if why == memory.NEEDED or _is_refill(first, second):
            first, second, part, earlier = second, first, earlier, part
            said |= {"now": in_rounds(second.rounds), "second": _who(second, part)}
            notes = ((f"{access(first, earlier)}", earlier.instr.location),)
        if self._passed_early(first, second, part):
            return
        rule = _rule(first, second, earlier)
        reason = self._reason(first, second)
        self._findings.add(
            ORDER, name, rule, part.instr, notes, first=_who(first, earlier, True), reason=reason, **said
        )

    def left(self, record: Record, part: Part, outside: Outside) -> None:
        """An access that leaves its allocation."""
        assert self.state is not None
        (allocation, byte), who = outside, _who(record, part)
        leaves(self.state, part.instr, allocation, byte, who, record.rounds)

    def _passed_early(self, first: Record, second: Record, part: Part) -> bool:
        """Whether the last wait before the later access, or before what it waits for, returned at once (the cause)."""
        assert self.state is not None
        if isinstance(first.barrier, Mbarrier) and not second.writes:
            wait = self.state.waits[second.cta, second.warp].get(first.barrier.place)
            if wait is not None and not wait.learnt and wait.guaranteed <= first.phase:
                self._early(first.barrier, wait, first.phase, part)
                return True
        guard = second.guard
        if second.writes and isinstance(guard, Wait) and not guard.learnt and 0 <= second.replaced < guard.at:
            self._early(guard.barrier, guard, guard.guaranteed, part)
            return True
        return False

    def _early(self, barrier: Mbarrier, wait: Wait, phase: int, part: Part) -> None:
        over = "before its first phase" if not wait.guaranteed else f"phase {wait.guaranteed - 1} is over already"
        reason = f"{over}, and phase {phase} is still to come; {instruction(part.instr)} relies on it"
        self._findings.add(
            *(PARITY, barrier.name, rules.PARITY, wait.instr),
            ((f"what relies on it: {instruction(part.instr)}", part.instr.location),),
            now=in_rounds(wait.rounds), wanted=wait.wanted, barrier=barrier.name, reason=reason,
        )  # fmt: skip

    def _reason(self, first: Record, second: Record) -> str:
        if second.hidden >> first.event & 1:
            return f"other lanes of warp {second.warp} waited for it, and its lanes have not met since: k.warp.sync()"
        if isinstance(first.barrier, Mbarrier):
            return (
                f"warp {second.warp} does not come after the end of phase {first.phase} of {first.barrier.name}, "
                "which the copy completes"
            )
        if first.engine:
            return f"nothing that {_him(first, second)} waited for says that it is done"
        return f"no barrier or mbarrier that {_him(first, second)} waited for comes after it"


def leaves(
    state: State, instr: MachineInstr, allocation: MemoryObject | None, byte: int, who: str, rounds: str
) -> None:
    """The finding of an access that leaves its allocation, at a byte counted from its start."""
    memory = "" if allocation is None else allocation.name
    if allocation is None:
        place = f"shared address {byte:#x}; the kernel's memory ends at {state.launch.shared.stop:#x}"
    else:
        place = f"byte {byte} of shared memory {memory}, which has {allocation.bytes}"
    state.findings.add(ACCOUNTING, memory, rules.BEYOND, instr, (), now=in_rounds(rounds), second=who, place=place)


def _is_refill(first: Record, second: Record) -> bool:
    """Whether the write that came first is the one that should have waited: who reads is in an earlier round.

    Where their loops differ: whether who reads had not yet read what was there before.
    """
    if not first.writes or second.writes or not first.engine or first.replaced < 0:
        return False
    filled, read = _numbers(first.rounds), _numbers(second.rounds)
    if filled and len(filled) == len(read):
        return read < filled
    return (second.cta, second.warp) not in first.readers


def _numbers(rounds: str) -> list[int]:
    return [int(one.rpartition(" ")[2]) for one in rounds.split(",") if one.rpartition(" ")[2].isdigit()]


def _him(first: Record, second: Record) -> str:
    return "it" if (first.cta, first.warp) == (second.cta, second.warp) else f"warp {second.warp} of CTA {second.cta}"


def _who(record: Record, part: Part, with_rounds: bool = False) -> str:
    rounds = after_rounds(record.rounds) if with_rounds else ""
    return f"{instruction(part.instr)} of warp {record.warp}{rounds}"


def _rule(first: Record, second: Record, earlier: Part) -> Rule:
    copies = instruction(earlier.instr).startswith(_COPY) and not first.proxy
    if first.writes and not second.writes:
        if not first.engine:
            return rules.MISSING_BARRIER
        return rules.COPY_READ_BEFORE_WAIT if copies else rules.READ_BEFORE_WAIT
    if second.engine:
        if not second.proxy:
            return rules.TWO_WRITERS if first.writes else rules.OVERWRITTEN_EARLY
        return rules.REFILL_IN_FLIGHT if first.engine and not first.writes else rules.REFILL
    if first.engine:
        return rules.WRITE_IN_FLIGHT
    return rules.TWO_WRITERS if first.writes else rules.OVERWRITTEN_EARLY
