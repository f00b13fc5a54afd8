"""The threads of the CTA that execute a with-block, and the evaluator: each value in every thread.

The threads are those for which the conditions around the block hold. A variable's value depends on the path; where two
paths meet, the condition that parted them selects it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from llvmlite import ir

from nvbackend.builder.scopes.blocks import Region
from nvbackend.builder.thread_tables.table import Table
from nvbackend.builder.thread_tables.tables import Cta, ThreadSet, signed
from nvbackend.builder.value_tracking.cluster_execution import ClusterExecution
from nvbackend.builder.value_tracking.known import Known
from nvbackend.builder.value_tracking.results import constant_of, inputs, key_of, result_of, selected
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineBlock
from nvbackend.signature import LaunchBounds


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """What a variable holds after an if: `yes` in the threads where `condition` holds, else `no`; either may be one."""

    condition: ir.Value
    yes: ir.Value | Merged
    no: ir.Value | Merged


class Evaluator:
    """The values over `cta`; `counters` are the slots of loop counters that are the same in all its threads.

    `merged` has the loads of variables that an if has set, and what they read.
    """

    def __init__(
        self, cta: Cta, counters: Container[ir.Value] = (), merged: Mapping[ir.Value, Merged] | None = None
    ) -> None:
        self.cta = cta
        self._counters = counters
        self._merged = {} if merged is None else merged
        self._found: dict[int, tuple[ir.Value, Known]] = {}
        self._equal: dict[tuple[object, ...], Known] = {}
        """What is known of equal expressions."""

    def known(self, value: ir.Value) -> Known:
        """What is known of `value`. Its operands are evaluated first, without recursion, because chains are long."""
        known = self._found
        waiting = [value]
        while waiting:
            last = waiting[-1]
            if id(last) in known:
                waiting.pop()
                continue
            sources = self._sources(last)
            missing = [each for each in sources if id(each) not in known]
            if missing:
                waiting += missing
                continue
            known[id(last)] = last, self._once(last, [known[id(each)][1] for each in sources])
        return known[id(value)][1]

    def _sources(self, value: ir.Value) -> tuple[ir.Value, ...]:
        if isinstance(value, Merged):
            return value.condition, value.yes, value.no
        if isinstance(value, ir.LoadInstr):
            return (self._merged[value],) if value in self._merged else ()
        if not isinstance(value, ir.Instruction) or isinstance(value, (ir.PhiInstr, ir.AllocaInstr)):
            return ()
        return inputs(value)

    def _once(self, value: ir.Value, sources: list[Known]) -> Known:
        """What is known of a value, evaluated once for all that are equal."""
        key = None if isinstance(value, (ir.LoadInstr, Merged)) else key_of(value, tuple(map(id, sources)))
        if key is None:
            return self._evaluate(value, sources)
        if key not in self._equal:
            self._equal[key] = self._evaluate(value, sources)
        return self._equal[key]

    def _evaluate(self, value: ir.Value, sources: list[Known]) -> Known:
        if isinstance(value, Merged):
            return Known(*(selected(*sources) or ()))
        if isinstance(value, ir.LoadInstr):
            if sources:
                return sources[0]
            return Known(certain=Scope.CTA if value.operands[0] in self._counters else Scope.THREAD)
        if not isinstance(value, ir.Instruction):
            return constant_of(value)
        return result_of(value, sources, self.cta)


def in_first_round(condition: ir.ICMPInstr, rounds: Sequence[ir.Value]) -> ir.ICMPInstr:
    """The condition of a counted loop, of its start in place of its counter; it is part of no block."""
    aside = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), []), "aside")  # no name of the kernel's is taken
    return ir.ICMPInstr(ir.Block(aside), condition.op, rounds[0], rounds[1])


_OTHER_AXES = ("llvm.nvvm.read.ptx.sreg.tid.y", "llvm.nvvm.read.ptx.sreg.tid.z")
Sides = tuple[ThreadSet | None, ThreadSet | None]


class Execution:
    """The threads that are in the innermost of the `regions`; `counters` are loop counters that all threads share.

    Which threads enter an attached `function` is unknown.
    """

    def __init__(self, function: ir.Function, regions: Sequence[Region], counters: Container[ir.Value]) -> None:
        self._function = function
        self._regions = regions
        self._is_entered = False
        self._counters = counters
        self._merged: dict[ir.Value, Merged] = {}
        self._is_settled = False
        """Whether what the function asks for changes the shape of the CTA no more."""
        self.other_axes = False
        """Whether the function asks for an index along y or z by other ways than LLVM's intrinsics."""
        self._evaluator: Evaluator
        self.of_cluster: ClusterExecution | None = None
        """The analysis of accesses to other CTAs, in clusters of several."""
        self._latest: tuple[ThreadSet | None, ir.Value | None, Sides] = None, None, (None, None)
        """The last division of threads by a condition, cached: the crew is often all threads here."""
        self._rounds: dict[ir.Value, tuple[int, int]] = {}
        """The first and the last value of loop counters, by their slots."""

    def start(self, bounds: LaunchBounds, *, entered: bool, shaped: bool) -> None:
        """The CTA and its cluster have these `bounds`; all threads enter the kernel where it is known.

        Where it is not known to be so `shaped`, an index along y or z that the kernel asks for means another shape.
        """
        self._is_entered, self._is_settled = entered, shaped
        cta = Cta(bounds.threads, bounds.cluster, bounds.shape, bounds.cluster_shape)
        self._evaluator = Evaluator(cta, self._counters, self._merged)
        if entered:
            everyone = ThreadSet(Table.where_all(bounds.threads))
            kernel = self._regions[0]
            kernel.among, kernel.executing, kernel.crew = everyone.bits, everyone, everyone
            self.of_cluster = ClusterExecution(self.cta, self.known, self.executing) if bounds.cluster > 1 else None

    def forget(self) -> None:
        """Which threads reach the open regions is no longer known: the caller made blocks on the path."""
        for region in self._regions:
            region.executing = region.crew = region.among = None

    @property
    def cta(self) -> Cta:
        """The CTA, as far as it is known."""
        self._look_at_axes()
        return self._evaluator.cta

    def _look_at_axes(self) -> None:
        """With indices along several axes, the layout of the threads is unknown."""
        if self._is_settled:
            return
        if self.other_axes or any(axis in self._function.module.globals for axis in _OTHER_AXES):
            self._is_settled, cta = True, self._evaluator.cta
            self._evaluator = Evaluator(
                Cta(cta.threads, cta.cluster, None, cta.cluster_shape), self._counters, self._merged
            )

    def merge(self, load: ir.Value, merged: Merged) -> None:
        """Note that `load` reads a variable that an if has set."""
        self._merged[load] = merged

    def known(self, value: ir.Value) -> Known:
        """What is known of `value` in all threads of the CTA, whichever of them are here."""
        self._look_at_axes()
        return self._evaluator.known(value)

    # -- who is here --------------------------------------------------------------------------------------------------

    def here(self) -> ThreadSet | None:
        """The threads of each CTA that are in the innermost region; None where they are not known, or not the same."""
        here = self._regions[-1].executing
        return None if here is None else here.of_cta

    def is_unreached(self) -> bool:
        """Whether certainly no thread comes here."""
        return self._regions[-1].among == 0

    def around(self) -> ThreadSet | None:
        """The threads of the innermost region around this place of which it is known who they are."""
        known = (region.executing for region in reversed(self._regions) if region.executing is not None)
        return None if (threads := next(known, None)) is None else threads.of_cta

    def narrow(self, condition: ir.Value, *, holds: bool) -> None:
        """What follows in the innermost region is for threads alone for which `condition` holds, or fails."""
        region = self._regions[-1]
        if self._is_entered and region.among is not None:
            region.among &= ~self.known(condition).never(self.cta.threads, holds=holds)

    def leave(self, target: Region) -> None:
        """Some threads jump to the end of `target`: which ones stay in the blocks inside is not tracked.

        Where a whole crew ends the kernel, as after a comparison of parameters, there is nobody of it left, or all.
        """
        leaving = self._regions[-1].crew if target is self._regions[0] else None
        for index in reversed(range(len(self._regions))):
            region = self._regions[index]
            is_whole = region.crew is leaving
            region.executing = region.anchor = None
            if not is_whole:
                region.crew = None
            if region.exit_block is not None and not is_whole:
                for block in region.entered:
                    block.crew = None  # in another round, those that left are missing from the start
            if region is target:
                return

    def split(self, condition: ir.Value) -> Sides:
        """Those of the threads here for which `condition` holds, and the others; None for what is not known."""
        return self.divided(self._regions[-1].executing, condition)

    def part(self, condition: ir.Value) -> Sides:
        """The threads of the crew that certainly reach each side of a branch together; None if unknown.

        Where all threads go the same way, one that comes brings the whole crew.
        """
        crew = self._regions[-1].crew
        kept, rest = self.divided(crew, condition)
        if kept is None or rest is None or kept.of_cta is None or rest.of_cta is None:
            return (crew, crew) if self.is_same(condition) else (None, None)
        return kept.of_cta, rest.of_cta

    def divided(self, threads: ThreadSet | None, condition: ir.Value) -> Sides:
        """Those of some threads for which `condition` holds, and the others; None for what is not known."""
        if self._latest[0] is not threads or self._latest[1] is not condition:
            self._latest = threads, condition, self._divide(threads, condition)
        return self._latest[2]

    def _divide(self, threads: ThreadSet | None, condition: ir.Value) -> Sides:
        known = self.known(condition)
        holds = known.holds()
        if threads is None or holds is None:
            return None, None
        if known.where is not None and not (known.where | ~threads.present).all():
            return None, None
        return threads.where(holds), threads.where(~holds)

    def is_alone(self, condition: ir.Value, chosen: ThreadSet | None, *, holds: bool) -> bool:
        """Whether one lane of a warp at most comes where `condition` holds, or fails: of those `chosen`, or of all."""
        if chosen is not None and chosen.of_cta is not None and chosen.of_cta.is_one_lane:
            return True
        known = self.known(condition)
        never = known.fails() if holds else known.holds()
        if never is None:
            return False
        leaders, ranks, _ = never.shape
        rows = (~never).wide(self.cta.threads).bits
        return ThreadSet(Table((leaders * ranks, 1, self.cta.threads), bits=rows)).is_one_lane

    def count(self, rounds: Sequence[ir.Value], counter: ir.Value) -> None:
        """A loop begins whose `rounds` (start, end, step) are these: do all threads run the same, and more than one?"""
        loop, around = self._regions[-1], self._regions[-2]
        constants = [number.constant for number in rounds if isinstance(number, ir.Constant)]
        known = [constant for constant in constants if type(constant) is int]  # that of an address is a text
        if self.is_unreached():
            known = []
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
        block.crew = None if here.crew is None else here.crew.crew(here.anchor or block.name)

    # -- which way threads and CTAs go --------------------------------------------------------------------------------

    def sides(self, condition: ir.Value, rounds: Sequence[ir.Value] = ()) -> tuple[int, int] | None:
        """The threads of the CTA for which `condition` certainly holds, and for which it certainly does not.

        None where that depends on more than who the thread is. `rounds` are those of the loop that it is of.
        """
        if not self._is_entered:
            return None
        sides = self.known(condition).sides(self.cta.threads)
        if sides is None and rounds:
            at_first = self.known(in_first_round(condition, rounds)).sides(self.cta.threads)
            return at_first if at_first == (0, (1 << self.cta.threads) - 1) else None  # there is no other round
        return sides

    def ranks(self, condition: ir.Value) -> tuple[int, int]:
        """The CTAs of the cluster, a bit each, in which `condition` certainly holds, and in which certainly not."""
        known = self.known(condition)
        holds, fails = known.holds(), known.fails()
        if not self._is_entered or holds is None or fails is None:
            return 0, 0
        true, false = (
            sum(1 << rank for rank in range(self.cta.cluster) if decided.of_rank(rank).all())
            for decided in (holds, fails)
        )
        return true, false

    # -- which value they have ----------------------------------------------------------------------------------------

    def counted(self, value: ir.Value) -> tuple[int, int] | None:
        """What a loop counter is in the first and in the last round; None for anything else."""
        return self._rounds.get(value.operands[0]) if isinstance(value, ir.LoadInstr) else None

    def is_same(self, *values: ir.Value) -> bool:
        """Whether all threads of the CTA certainly have these values, in one round of the loops that count them."""
        return all(self.known(value).certain >= Scope.CTA for value in values)

    def numbers(self, value: ir.Value) -> Sequence[int] | None:
        """The value in each thread of the CTA; None if it is unknown or depends on more than the thread."""
        if not self._is_entered or not isinstance(value.type, ir.IntType):
            return None
        return self.known(value).per_thread(self.cta.threads, value.type.width)

    def numbers_here(self, value: ir.Value) -> dict[int, int]:
        """The value in each of the threads that are here; none where they or their values are not known."""
        here, numbers = self.here(), self.numbers(value)
        return {} if here is None or numbers is None else {thread: numbers[thread] for thread in here.exact}

    def values_here(self, value: ir.Value) -> tuple[int, ...]:
        """What certainly is the value in some thread here, for every elected lane; none where nothing is known."""
        here, known = self.here(), self.known(value)
        if here is None or not known.is_whole or known.numbers is None or known.numbers.shape[1] > 1:
            return ()
        return here.values(signed(known.numbers, value.type.width))

    def decided(self, condition: ir.Value) -> bool | None:
        """Whether `condition` holds in every thread here, or fails in some thread; None where neither is known."""
        here = self.values_here(condition)
        if here:
            return all(here)
        known = self.known(condition)
        if not known.is_whole or known.numbers is None or known.numbers.any() != known.numbers.all():
            return None
        return known.numbers.all()

    def in_each_cta(self, value: ir.Value) -> Sequence[int] | None:
        """The value in each CTA of the cluster, of what its rank decides, by rank; None where it is not known."""
        known = self.known(value) if self._is_entered and isinstance(value.type, ir.IntType) else None
        if known is None or not known.is_whole or known.certain < Scope.CTA or known.numbers is None:
            return None
        numbers = signed(known.numbers, value.type.width)
        return tuple(numbers.of_rank(rank).first for rank in range(self.cta.cluster))

    def first_peers(self, rank: ir.Value) -> int | None:
        """The CTA of this `rank` in the first iteration of a loop that counts it, as `facts.PEERS`; None if unknown.

        A CTA whose value is not a rank of the cluster does not reach the place.
        """
        ranks, counted, cluster = self.in_each_cta(rank), self.counted(rank), self.cta.cluster
        if ranks is None and counted is not None:
            ranks = (counted[0],) * cluster
        peers = {own: peer for own, peer in enumerate(ranks or ()) if 0 <= peer < cluster}
        return sum(1 << own * facts.MOST_CTAS + peer for own, peer in peers.items()) if peers else None

    def executing(self, guard: object) -> ThreadSet | None:
        """The threads of all CTAs that execute an instruction here, without those that its `guard` excludes."""
        if guard is None:
            return self._regions[-1].executing
        return self.split(guard)[0] if isinstance(guard, ir.Value) else None
