"""Barriers of the CTA and of the cluster that some threads come to and others never do.

Threads may meet at a barrier from different places of the program. So a barrier on one side of a branch is only wrong
where the other threads can come to no barrier at all that would match it, on their side or under any other branch that
lets one of them through.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

from nvbackend.intrinsics.row import Row
from nvbackend.isel import convergence_rules as rules
from nvbackend.isel.convergence_regions import Divergence, Mistake, Parting
from nvbackend.isel.machine import MachineFunction, MachineInstr, Scope
from nvbackend.isel.warp_paths import THREADS, coming

_CTA_BARRIERS = ("bar.", "barrier.sync", "barrier.red", "barrier.arrive")
_CLUSTER_BARRIERS = ("barrier.cluster.arrive", "barrier.cluster.wait")
_WARP_BARRIER = "bar.warp.sync"
_ID = "id"
_COUNTED = "counted"


@cache
def is_collective(row: Row) -> bool:
    """Whether it is a barrier of the CTA or of the cluster."""
    return row.opcode in _CLUSTER_BARRIERS or (row.opcode.startswith(_CTA_BARRIERS) and row.opcode != _WARP_BARRIER)


@dataclass(frozen=True, slots=True)
class _Barrier:
    """A barrier in the text: its number in the CTA, None where it is computed, and whether it waits for everybody."""

    block: str
    opcode: str
    number: int | None
    all: bool

    def may_match(self, other: _Barrier) -> bool:
        """Whether threads here and threads there may wait for each other."""
        if self.opcode in _CLUSTER_BARRIERS or other.opcode in _CLUSTER_BARRIERS:
            return self.opcode == other.opcode
        return self.number is None or other.number is None or self.number == other.number


class Barriers:
    """All barriers of a function."""

    def __init__(self, function: MachineFunction, divergence: Divergence) -> None:
        self._function = function
        self._divergence = divergence
        self._all = [
            _barrier(name, instr)
            for name, block in function.blocks.items()
            if name in divergence.flow.successors
            for instr in block.instructions
            if instr.row is not None and is_collective(instr.row)
        ]

    def check(self, block: str, instr: MachineInstr) -> list[Mistake]:
        """The mistake, if `instr` is a barrier of all threads that some of them never come to."""
        if instr.row is None or not is_collective(instr.row):
            return []
        barrier = _barrier(block, instr)
        in_cluster = barrier.opcode in _CLUSTER_BARRIERS
        needed = Scope.CLUSTER if in_cluster else Scope.CTA
        if not barrier.all or not self._divergence.is_parted(block, needed):
            return []
        for parting in self._divergence.partings_of(block, needed):
            side = self._lonely_side(barrier, parting, needed)
            if side is None or (in_cluster and side and parting.branch.uniform < Scope.WARP):
                continue  # a warp of which a part has ended does not come together: another rule
            divergent, skipped = (
                (rules.CLUSTER_DIVERGENT, rules.CLUSTER_SKIPPED)
                if in_cluster
                else (rules.BARRIER_DIVERGENT, rules.BARRIER_SKIPPED)
            )
            rule = skipped if side else divergent
            text, notes = parting.described(), parting.notes()
            diagnostic = rule.diagnose(at=instr.location, notes=notes, instruction=instr.row.ptx, branch=text)
            return [Mistake((rule.id, parting.block), diagnostic)]
        return []

    def _lonely_side(self, barrier: _Barrier, parting: Parting, needed: Scope) -> bool | None:
        """Whether the other threads have ended (True) or go elsewhere (False); None where they may match it."""
        flow = self._divergence.flow
        if not parting.branch.fixed and parting.block in flow.reached(flow.successors[parting.block]):
            return None  # another round may let the other threads come to the same barrier
        meeting = flow.meeting[parting.block]
        sides = [flow.reached([follower], {meeting, parting.block}) for follower in flow.successors[parting.block]]
        here = [side for side in sides if barrier.block in side]
        if len(here) != 1:
            return None
        for other in self._all:
            elsewhere = other.block not in here[0] and self._divergence.is_parted(other.block, needed)
            if elsewhere and barrier.may_match(other) and self._may_come(parting, sides.index(here[0]), other):
                return None
        return meeting is None and barrier.block in sides[-1]

    def _may_come(self, parting: Parting, side: int, other: _Barrier) -> bool:
        """Whether a thread that may not take `side` of the branch may come to the other barrier."""
        known, threads = self._function.blocks[parting.block].sides, self._function.attributes.get(THREADS)
        if known is None or not isinstance(threads, int):
            return True
        return bool(~known[side] & (1 << threads) - 1 & self._coming[other.block])

    @cached_property
    def _coming(self) -> dict[str, int]:
        return coming(self._function)


def _barrier(block: str, instr: MachineInstr) -> _Barrier:
    assert instr.row is not None
    number = instr.operands.get(_ID, "")
    return _Barrier(
        block,
        instr.row.opcode,
        int(number) if number.isdigit() else None,
        instr.row.opcode in _CLUSTER_BARRIERS or not (instr.row.axes[_COUNTED] or number == ""),
    )
