"""Barriers of the CTA and of the cluster that some threads come to and others never do.

Threads may meet at a barrier from different places of the program. So a barrier on one side of a branch is only wrong
where the other threads can come to no barrier at all that would match it, on their side or under any other branch that
lets one of them through.
"""

from __future__ import annotations

from functools import cached_property

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.semantics import Scope, ThreadBarrier
from nvbackend.isel.flow.graphs import on_cycles, postorder
from nvbackend.isel.flow.paths import coming, everyone
from nvbackend.isel.machine.function import MachineFunction, MachineInstr
from nvbackend.isel.protocols.convergence import rules
from nvbackend.isel.protocols.convergence.regions import Divergence, Mistake, Parting

_ID, _COUNT = "id", "threads"


def collective(row: Row | None) -> ThreadBarrier | None:
    """The barrier of the CTA or of the cluster that it is."""
    barrier = None if row is None else row.semantics.barrier
    return barrier if barrier is not None and barrier.scope > Scope.WARP else None


@dataclass(frozen=True, slots=True)
class _Barrier:
    """A barrier in the text: its number in the CTA, None where it is computed, and whether it waits for everybody."""

    block: str
    barrier: ThreadBarrier
    number: int | None
    all: bool

    @property
    def meeting(self) -> str | int | None:
        """What threads meet by: to arrive or wait in a cluster, the number in the CTA, None where that is computed."""
        return ("wait" if self.barrier.waits else "arrive") if self.in_cluster else self.number

    @property
    def in_cluster(self) -> bool:
        """Whether it is of the threads of a cluster."""
        return self.barrier.scope is Scope.CLUSTER

    def may_match(self, meeting: str | int | None) -> bool:
        """Whether threads here and threads that meet by this may wait for each other."""
        if isinstance(meeting, str) or self.in_cluster:
            return self.meeting == meeting
        return self.number is None or meeting is None or self.number == meeting


class Barriers:
    """All barriers of a function."""

    def __init__(self, function: MachineFunction, divergence: Divergence) -> None:
        self._function = function
        self._divergence = divergence
        self._sides: dict[str, list[set[str]]] = {}
        self._places: dict[tuple[object, ...], set[str]] = {}
        self._matched: dict[tuple[object, ...], bool] = {}

    @cached_property
    def _all(self) -> list[_Barrier]:
        return [
            barrier
            for name, block in self._function.blocks.items()
            if name in self._divergence.flow.successors
            for instr in block.instructions
            if (barrier := _barrier(name, instr)) is not None
        ]

    def check(self, block: str, instr: MachineInstr) -> list[Mistake]:
        """The mistake, if `instr` is a barrier of all threads that some of them never come to."""
        barrier = _barrier(block, instr)
        if barrier is None or instr.row is None:
            return []
        in_cluster = barrier.in_cluster
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
            texts = {"branch": parting.described(), "instruction": instr.row.ptx}
            if in_cluster:
                by_cta = parting.branch.uniform is Scope.CTA and not parting.branch.fixed
                texts["choose"] = rules.BY_CLUSTER if by_cta else ""
            diagnostic = rule.diagnose(at=instr.location, notes=parting.notes(), **texts)
            return [Mistake((rule.id, parting.block), diagnostic)]
        return []

    def _lonely_side(self, barrier: _Barrier, parting: Parting, needed: Scope) -> bool | None:
        """Whether the other threads have ended (True) or go elsewhere (False); None where they may match it."""
        if not parting.branch.fixed and parting.block in self._cyclic:
            return None  # another round may let the other threads come to the same barrier
        sides = self._sides_of(parting.block)
        here = [index for index, side in enumerate(sides) if barrier.block in side]
        if len(here) != 1 or self._is_matched(barrier, parting.block, here[0], needed):
            return None
        return self._divergence.flow.meeting[parting.block] is None and barrier.block in sides[-1]

    def _sides_of(self, parting: str) -> list[set[str]]:
        """The blocks on each side of the branch at the end of a block, up to where they meet."""
        if parting not in self._sides:
            flow = self._divergence.flow
            ends = {flow.meeting[parting], parting}
            self._sides[parting] = [flow.reached([follower], ends) for follower in flow.successors[parting]]
        return self._sides[parting]

    def _is_matched(self, barrier: _Barrier, parting: str, side: int, needed: Scope) -> bool:
        """Whether threads that may not take this side of the branch may come to a barrier elsewhere that matches."""
        key = parting, side, barrier.meeting, needed
        if key not in self._matched:
            known, others = self._function.blocks[parting].sides, everyone(self._function)
            if known is not None:
                others &= ~known[side]
            places, inside = self._places_of(barrier.meeting, needed, others), self._sides_of(parting)[side]
            self._matched[key] = not places <= inside
        return self._matched[key]

    def _places_of(self, meeting: str | int | None, needed: Scope, threads: int) -> set[str]:
        """The blocks with barriers that may match, where some of `threads` may come."""
        key = meeting, needed, threads
        if key not in self._places:
            self._places[key] = {
                other.block
                for other in self._all
                if other.may_match(meeting)
                and self._divergence.is_parted(other.block, needed)
                and self._coming[other.block] & threads
            }
        return self._places[key]

    @cached_property
    def _cyclic(self) -> set[str]:
        flow = self._divergence.flow
        order = postorder([next(iter(flow.successors))], flow.successors.__getitem__)
        return on_cycles(order[::-1], flow.predecessors.__getitem__)

    @cached_property
    def _coming(self) -> dict[str, int]:
        return coming(self._function)


def _barrier(block: str, instr: MachineInstr) -> _Barrier | None:
    barrier = collective(instr.row)
    if barrier is None or instr.row is None:
        return None
    number = instr.operands.get(_ID, "")
    return _Barrier(
        block,
        barrier,
        int(number) if number.isdigit() else None,
        barrier.scope is Scope.CLUSTER or not instr.row.has_operand(_COUNT),
    )
