"""Which threads of the CTA are in a with-block: found by evaluating its condition for each of them.

Conditions over the thread's index, constants and elected lanes have an answer; all others have none, and what is
known of the block is then nothing.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from llvmlite import ir

from nvbackend.builder.lower.lowering import Operands
from nvbackend.builder.scopes.regions import Region, Threads, in_both
from nvbackend.builder.value_tracking.cluster_execution import THREAD_INDEX, ClusterExecution, rank_values
from nvbackend.builder.value_tracking.expressions.provenance import same_in_all_threads, wraps
from nvbackend.builder.value_tracking.lane_values import Lanes, LaneValues, conjuncts
from nvbackend.intrinsics.mma import wmma
from nvbackend.intrinsics.row.guard import GUARD
from nvbackend.intrinsics.row.hierarchy import WARP_SIZE
from nvbackend.intrinsics.row.row import Role, Row
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import Crew, MachineBlock

BARRIER = "barrier"
"""The operand that holds the address of an mbarrier."""
_CONSTANTS = (facts.COUNT, facts.BYTES, facts.PARITY, facts.MASK, facts.STRIDE)


class Execution:
    """The threads that are in the innermost of the `regions`; `counters` are loop counters that all threads share."""

    def __init__(self, regions: Sequence[Region], counters: Container[ir.Value]) -> None:
        self._regions = regions
        self._total = 0
        self._values = LaneValues(THREAD_INDEX, 0)
        self._ranks = rank_values(0)
        self.of_cluster: ClusterExecution | None = None
        """The same of all CTAs of a cluster, where there are several."""
        self._counters = counters
        self._rounds: dict[ir.Value, tuple[int, int]] = {}
        """The first and the last value of loop counters, by their slots."""

    def start(self, threads: int, cluster: int) -> None:
        """All threads of the CTA enter the kernel here, in clusters of so many CTAs."""
        self._total = threads
        self._values = LaneValues(THREAD_INDEX, threads)
        self._ranks = rank_values(cluster)
        self.of_cluster = ClusterExecution(self._regions, threads, cluster) if cluster > 1 else None
        self._regions[0].among = (1 << threads) - 1
        self._regions[0].executing = self._regions[0].crew = Threads(self._regions[0].among)

    def forget(self) -> None:
        """Who comes to the open regions is no longer known: somebody else has made the blocks on the way."""
        for region in self._regions:
            region.executing = region.crew = region.among = None

    def here(self, skip: int = 0) -> Threads | None:
        """The threads that are in the innermost region, `skip` of them left out."""
        return self._regions[-1 - skip].executing

    def narrow(self, condition: ir.Value, elected: Sequence[ir.Value], *, holds: bool) -> None:
        """The innermost region is entered where `condition` holds, or where it does not: no others come there."""
        sides, region = self.sides(condition, elected), self._regions[-1]
        if sides is not None and region.among is not None:
            region.among &= ~sides[1 if holds else 0]

    def leave(self, target: Region) -> None:
        """Some threads go to the end of `target`: who stays in the blocks inside it is not followed."""
        for index in reversed(range(len(self._regions))):
            region = self._regions[index]
            region.executing = region.crew = region.in_cluster = None
            if region.exit_block is not None:
                for block in region.entered:
                    block.crew = None  # in another round, those that left are missing from the start
            if region is target:
                return

    def split(self, condition: ir.Value, elected: Sequence[ir.Value]) -> tuple[Threads | None, Threads | None]:
        """Those of the threads here for which `condition` holds, and the others; None for what is not known."""
        here = self.here()
        if here is None:
            return None, None
        chosen = self._holds(condition, elected)
        if chosen is None or here.elected:
            return None, None
        kept = Threads(here.bits & chosen.bits, chosen.elected)
        return kept, here.without(kept)

    def split_cluster(self, condition: ir.Value, elected: Sequence[ir.Value]) -> tuple[Threads | None, Threads | None]:
        """As `split`, of the threads of all CTAs of the cluster."""
        return (None, None) if self.of_cluster is None else self.of_cluster.split(condition, elected)

    def part(self, condition: ir.Value, elected: Sequence[ir.Value]) -> tuple[Threads | None, Threads | None]:
        """Those of the crew here that certainly come to either side of a branch together; None for what is not known.

        Where all threads go the same way, whoever comes brings the whole crew.
        """
        crew = self._regions[-1].crew
        if crew is None or same_in_all_threads([condition], self._counters):
            return crew, crew
        chosen = self._holds(condition, elected)
        if chosen is None or crew.elected:
            return None, None
        kept = Threads(crew.bits & chosen.bits, chosen.elected)
        return kept, crew.without(kept)

    def count(self, rounds: Sequence[ir.Value], counter: ir.Value) -> None:
        """A loop begins whose `rounds` (start, end, step) are these: do all threads run the same, and more than one?"""
        loop, around = self._regions[-1], self._regions[-2]
        constants = [one.constant for one in rounds if isinstance(one, ir.Constant)]
        known = [one for one in constants if type(one) is int]  # that of an address is a text
        if len(known) == len(rounds) and known[0] < known[1]:
            first, end, step = known
            self._rounds[counter] = first, first + (end - 1 - first) // step * step
        once = len(known) == len(rounds) and known[1] - known[0] <= known[2]
        if counter in self._counters and not once:
            loop.crew = around.crew

    def enter(self, block: MachineBlock) -> None:
        """Note who runs `block`, which begins in the innermost region."""
        here = self._regions[-1]
        for region in self._regions:
            region.entered.append(block)
        if here.crew is not None:
            block.crew = Crew(here.crew.bits, here.crew.elected, here.anchor or block.name)

    def sides(self, condition: ir.Value, elected: Sequence[ir.Value]) -> tuple[int, int] | None:
        """The threads of the CTA for which `condition` certainly holds, and for which it certainly does not."""
        chosen = self._holds(condition, elected) if self._total else None
        if chosen is None:
            return None
        everyone = (1 << self._total) - 1
        if not chosen.elected:
            return chosen.bits, everyone & ~chosen.bits
        whole = (1 << WARP_SIZE) - 1
        open_to = sum(whole << start for start in range(0, self._total, WARP_SIZE) if chosen.bits >> start & whole)
        return 0, everyone & ~open_to

    def ranks(self, condition: ir.Value) -> tuple[int, int]:
        """The CTAs of the cluster, a bit each, in which `condition` certainly holds, and in which certainly not."""
        everyone = (1 << self._ranks.total) - 1
        holds, fails = everyone, 0
        for one in conjuncts(condition):
            lanes = self._ranks.lanes(one)
            bits = 0 if lanes is None else sum(1 << rank for rank, true in enumerate(lanes) if true)
            holds &= bits
            fails |= 0 if lanes is None else everyone & ~bits
        return holds, fails

    def _holds(self, condition: ir.Value, elected: Sequence[ir.Value]) -> Threads | None:
        found: Threads | None = None
        for one in conjuncts(condition):
            holding = self._holds_alone(one, elected)
            found = holding if found is None else in_both(found, holding)
            if found is None:
                return None
        return found

    def _holds_alone(self, condition: ir.Value, elected: Sequence[ir.Value]) -> Threads | None:
        """The threads for which a condition holds that is no conjunction."""
        if any(condition is one for one in elected):
            return Threads(sum(1 << first for first in range(0, self._total, WARP_SIZE)), elected=True)
        lanes = self._values.lanes(condition)
        return None if lanes is None else Threads(sum(1 << index for index, holds in enumerate(lanes) if holds))

    def counted(self, value: ir.Value) -> tuple[int, int] | None:
        """What a loop counter is in the first and in the last round; None for anything else."""
        return self._rounds.get(value.operands[0]) if isinstance(value, ir.LoadInstr) else None

    def is_same(self, value: ir.Value) -> bool:
        """Whether all threads certainly have this value, in one round of the loops that count it."""
        return same_in_all_threads([value], self._counters)

    def numbers(self, value: ir.Value) -> Lanes | None:
        """The value in each thread of the CTA; None where it is not known."""
        return self._values.lanes(value) if self._total else None

    def in_each_cta(self, value: ir.Value) -> Lanes | None:
        """The value in each CTA of the cluster, of what its rank decides, by rank; None where it is not known."""
        return self._ranks.lanes(value) if self._total else None

    def first_peers(self, rank: ir.Value) -> int | None:
        """The CTA of this `rank` in the first round of a loop that counts it, as `facts.PEERS`; None for an unknown."""
        found, counted = self.in_each_cta(rank), self.counted(rank)
        if found is None and counted is not None:
            found = (counted[0],) * self._ranks.total
        if found is None or not all(0 <= one < self._ranks.total for one in found):
            return None
        return sum(1 << own * facts.MOST_CTAS + peer for own, peer in enumerate(found))

    def facts(self, row: Row, operands: Operands) -> dict[str, int]:
        """What is known of how the threads here execute `row`, where it is one that concerns mbarriers or bulk copies.

        Threads that a guard takes out are not counted. Of wmma, constant operands alone.
        """
        if not _is_counted(row):
            return _constants(row, operands) if row.family == wmma.FAMILY else {}
        known = _constants(row, operands)
        barrier = operands.get(BARRIER)
        if isinstance(barrier, ir.Value) and wraps(barrier):
            known[facts.WRAPS] = 1
        here = self._guarded(operands)
        if here is not None:
            known[facts.THREADS] = here.count
            known[facts.WARPS] = here.warps
            if here.count == 1 and not here.elected:
                known[facts.THREAD] = here.bits.bit_length() - 1
        return known

    def _guarded(self, operands: Operands) -> Threads | None:
        here = self.here()
        guard = operands.get(GUARD)
        if here is None or guard is None:
            return here
        lanes = self._values.lanes(guard) if isinstance(guard, ir.Value) else None
        if lanes is None or here.elected:
            return None
        return Threads(here.bits & sum(1 << index for index, holds in enumerate(lanes) if holds))


def _is_counted(row: Row) -> bool:
    return any(operand.name == BARRIER for operand in row.operands) or row.family in ("tma", "cluster")


def _constants(row: Row, operands: Operands) -> dict[str, int]:
    known = {}
    for operand in row.operands:
        given = operands.get(operand.name)
        number = given.constant if isinstance(given, ir.Constant) else given
        if operand.name in _CONSTANTS and operand.role is not Role.OUTPUT and isinstance(number, int):
            known[operand.name] = number
    return known
