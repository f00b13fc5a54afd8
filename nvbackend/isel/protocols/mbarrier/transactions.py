"""Bytes of mbarriers: those that each CTA of a cluster announces, against those that the copies of all CTAs bring it.

As with arrivals, only what is certain is compared. What one CTA executes and what another gets of it comes from
`Reaches`; a kernel without clusters has one CTA.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nvbackend.diagnostics import Rule
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import MbarrierUse, Scope
from nvbackend.isel.flow.loops import Loop, Loops
from nvbackend.isel.flow.memory_uses import known_extent
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineInstr, MemoryUse, RunTimeValues
from nvbackend.isel.protocols.mbarrier import rules
from nvbackend.isel.protocols.mbarrier.finding import CountFinding, is_spread
from nvbackend.isel.protocols.mbarrier.reach import Reaches
from nvbackend.isel.protocols.mbarrier.uses import Cell, Use, Uses

_DESTINATION = "destination"
_OF_BYTES = MbarrierUse.EXPECT | MbarrierUse.COMPLETE


@dataclass(frozen=True, slots=True)
class _Sum:
    """What one CTA announces and is brought, in a loop's round or outside of loops, and by which instructions."""

    rank: int
    expected: int
    brought: int
    announced: tuple[Use, ...]
    bringing: tuple[Use, ...]


class Transactions:
    """The sums of bytes of one function."""

    def __init__(self, uses: Uses, loops: Loops, reaches: Reaches, values: RunTimeValues | None) -> None:
        self._uses = uses
        self._loops = loops
        self._reaches = reaches
        self._values = values

    def findings(self, cell: Cell) -> Iterator[CountFinding]:
        """The first of what certainly is wrong with the bytes of a barrier."""
        expects, completes = self._uses.of(cell, MbarrierUse.EXPECT), self._uses.of(cell, MbarrierUse.COMPLETE)
        if completes and self._uses.lacks(cell, MbarrierUse.EXPECT):
            yield CountFinding(rules.UNEXPECTED_BYTES, completes[0], ())
        elif expects and self._uses.lacks(cell, MbarrierUse.COMPLETE):
            announced = [use for use in expects if use.fact(facts.BYTES)]
            if announced and len(announced) == len(expects):
                values = (("bytes", announced[0].fact(facts.BYTES)),)
                yield CountFinding(rules.MISSING_BYTES, announced[0], (), values)
        elif expects and completes and not self._uses.lost & _OF_BYTES:
            waits = self._uses.of(cell, MbarrierUse.WAIT | MbarrierUse.POLL)
            finding = self._unexpected(expects, completes) or self._missing(waits, expects, completes)
            yield from [finding] if finding is not None else self._sums(cell, expects, completes)

    # -- one side alone -------------------------------------------------------------------------------------------

    def _missing(self, waits: Sequence[Use], expects: Sequence[Use], completes: Sequence[Use]) -> CountFinding | None:
        """A CTA that announces bytes, waits, and gets none of any copy."""
        for rank in self._reaches.peers:
            if self._reaches.may_reach(completes, rank) or not self._reaches.may_reach(waits, rank):
                continue
            for use in expects:
                if use.fact(facts.BYTES) and self._reaches.certainly(use) >> rank & 1:
                    values = (
                        ("rank", rank),
                        ("bytes", use.fact(facts.BYTES)),
                        ("copies", self._reaches.all_described(completes)),
                    )
                    return CountFinding(rules.MISSING_IN_PEER, use, tuple(completes), values)
        return None

    def _unexpected(self, expects: Sequence[Use], completes: Sequence[Use]) -> CountFinding | None:
        """A CTA that gets bytes and announces none."""
        for use in completes:
            reached = self._reaches.certainly(use)
            for rank in self._reaches.peers:
                if reached >> rank & 1 and not self._reaches.may_reach(expects, rank):
                    values = (("rank", rank), ("copies", self._reaches.all_described([use])))
                    return CountFinding(rules.UNEXPECTED_IN_PEER, use, tuple(expects[:1]), values)
        return None

    # -- sums -----------------------------------------------------------------------------------------------------

    def _sums(self, cell: Cell, expects: Sequence[Use], completes: Sequence[Use]) -> Iterator[CountFinding]:
        """The bytes announced and brought in each loop, or outside of loops, where both are known."""
        sums: dict[Loop | None, list[_Sum]] = {}
        for rank in self._reaches.ranks:
            for loop, of_cta in self._in_cta(rank, expects, completes):
                sums.setdefault(loop, []).append(of_cta)
        waits = self._uses.of(cell, MbarrierUse.WAIT | MbarrierUse.POLL)
        for loop, of_ctas in sums.items():
            wrong = [totals for totals in of_ctas if totals.expected != totals.brought]
            if (
                wrong
                and len({(totals.expected, totals.brought) for totals in of_ctas}) == 1
                and len(of_ctas) == self._reaches.size
            ):
                yield self._wrong(rules.WRONG_BYTES, wrong[0], loop, ())
            elif noticed := [
                totals
                for totals in wrong
                if totals.brought > totals.expected or self._reaches.may_reach(waits, totals.rank)
            ]:
                copies = self._reaches.all_described(noticed[0].bringing)
                yield self._wrong(
                    rules.WRONG_IN_PEER, noticed[0], loop, (("rank", noticed[0].rank), ("copies", copies))
                )
        if not sums and self._reaches.size > 1:
            yield from self._of_cluster(cell, expects, completes)

    def _in_cta(
        self, rank: int, expects: Sequence[Use], completes: Sequence[Use]
    ) -> Iterator[tuple[Loop | None, _Sum]]:
        """The sums of one CTA in each loop that has both sides, if all loops have."""
        groups: dict[Loop | None, tuple[list[Use], list[Use]]] = {}
        for index, uses in enumerate((expects, completes)):
            for use in uses:
                if self._reaches.may_reach([use], rank):
                    groups.setdefault(self._loops.innermost(use.site.block), ([], []))[index].append(use)
        if not all(announced and bringing for announced, bringing in groups.values()):
            return
        for loop, (announced, bringing) in groups.items():
            expected, brought = self._total(announced, rank), self._total(bringing, rank)
            if expected is not None and brought is not None:
                yield loop, _Sum(rank, expected, brought, tuple(announced), tuple(bringing))

    @staticmethod
    def _wrong(rule: Rule, wrong: _Sum, loop: Loop | None, more: tuple[tuple[str, object], ...]) -> CountFinding:
        when = "outside of loops" if loop is None else "in each round of the loop"
        values = (("expected", wrong.expected), ("brought", wrong.brought), ("when", when), *more)
        return CountFinding(rule, wrong.announced[0], wrong.bringing, values)

    def _total(self, uses: Iterable[Use], rank: int) -> int | None:
        total = 0
        for use in uses:
            for source in self._reaches.ranks:
                part = self._part(use, source, rank)
                if part is None:
                    return None
                total += part
        return total

    def _part(self, use: Use, source: int, rank: int) -> int | None:
        """The bytes that a CTA, executing the instruction once by all its threads, announces or brings to another."""
        times = self._reaches.times(use, source, rank)
        if not times:
            return times
        size = bytes_of(use)
        if size is None or is_spread(self._values, use, times):
            return None
        is_one = times == 1 and self._reaches.size == 1
        if not is_one and not self._reaches.is_even(use, Scope.CTA if source == rank else Scope.CLUSTER):
            return None
        return size * times

    def _of_cluster(self, cell: Cell, expects: Sequence[Use], completes: Sequence[Use]) -> Iterator[CountFinding]:
        """The sums of all CTAs together, where it is unknown which of them gets what, and all wait for it."""
        if not any(wait.threads is not None for wait in self._uses.of(cell, MbarrierUse.WAIT)):
            return
        groups: dict[Loop | None, tuple[list[Use], list[Use]]] = {}
        for index, uses in enumerate((expects, completes)):
            for use in uses:
                groups.setdefault(self._loops.innermost(use.site.block), ([], []))[index].append(use)
        if not all(announced and bringing for announced, bringing in groups.values()):
            return
        for loop, (announced, bringing) in groups.items():
            expected, brought = self._together(announced), self._together(bringing)
            if expected is not None and brought is not None and expected != brought:
                size = self._reaches.size
                even = not expected % size and not brought % size
                when = "outside of loops" if loop is None else "in each round of the loop"
                if not even:
                    when += f", by the {size} CTAs of a cluster together"
                values = (
                    ("expected", expected // size if even else expected),
                    ("brought", brought // size if even else brought),
                    ("when", when),
                )
                yield CountFinding(rules.WRONG_BYTES, announced[0], tuple(bringing), values)

    def _together(self, uses: Iterable[Use]) -> int | None:
        total = 0
        for use in uses:
            for source in self._reaches.ranks:
                times, size = self._reaches.times_in_all(use, source), bytes_of(use)
                if times == 0:
                    continue
                even = self._reaches.is_even(use, Scope.CLUSTER)
                if times is None or size is None or not even or is_spread(self._values, use, times):
                    return None
                total += times * size
        return total


def bytes_of(use: Use) -> int | None:
    """The bytes that one execution announces or brings."""
    count = use.fact(facts.BYTES)
    return _brought(use.site.instr) if count is None and use.role & MbarrierUse.COMPLETE else count


def _brought(instr: MachineInstr) -> int | None:
    """The bytes that a copy writes, wherever that is."""
    row = instr.row
    known = next((touch.bytes for touch in instr.memory if touch.use is MemoryUse.ASYNC_WRITE), None)
    if known is None and row is not None and row.has_operand(_DESTINATION):
        known = known_extent(row.semantics, row.operand(_DESTINATION), instr.facts, strided=False)
    return known
