"""Arrivals and bytes of mbarriers: what the kernel's instructions add up to, against what was announced.

Only sums that are certain are compared: every part is a number, executed by a known number of threads, once for each
phase. Where one part is not known, nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nvbackend.diagnostics import Rule
from nvbackend.isel import facts
from nvbackend.isel.flow.extents import known_extent
from nvbackend.isel.flow.loops import Loop, Loops
from nvbackend.isel.machine import MachineInstr, MemoryUse, RunTimeValues, Scope
from nvbackend.isel.protocols.mbarrier import rules
from nvbackend.isel.protocols.mbarrier.uses import BARRIER, Cell, Role, Use, Uses

_COUNTED = Role.INIT | Role.ARRIVE
_DESTINATION = "destination"
_OF_BYTES = Role.EXPECT | Role.COMPLETE


@dataclass(frozen=True, slots=True)
class CountFinding:
    """A broken rule at `use`; `others` are the instructions that it was added up with; `values` go into the text."""

    rule: Rule
    use: Use
    others: tuple[Use, ...]
    values: tuple[tuple[str, object], ...] = ()


class Counts:
    """The sums of one function, whose clusters have `cluster` CTAs."""

    def __init__(self, uses: Uses, loops: Loops, cluster: int, values: RunTimeValues | None) -> None:
        self._uses = uses
        self._loops = loops
        self._cluster = cluster
        self._values = values
        self._initialised: dict[Cell, int | None] = {}
        self._arriving: dict[int, int | None] = {}

    def findings(self) -> Iterator[CountFinding]:
        """Every sum that certainly is not what it must be."""
        for cell in self._uses.cells:
            if cell.object in self._uses.escaped:
                continue
            yield from self._arrivals(cell)
            yield from self._transactions(cell)

    # -- arrivals -----------------------------------------------------------------------------------------------

    def _arrivals(self, cell: Cell) -> Iterator[CountFinding]:
        inits, waits = self._uses.of(cell, Role.INIT), self._uses.of(cell, Role.WAIT)
        if self._uses.lacks(cell, Role.ARRIVE):
            endless = [use for use in waits if use.fact(facts.PARITY) != 1]
            if inits and endless and not self._uses.lost:
                yield CountFinding(rules.NO_ARRIVAL, endless[0], tuple(inits))
            return
        counts = {use.fact(facts.COUNT) for use in inits}
        parts = self._parts(cell)
        if len(counts) != 1 or None in counts or not parts or self._uses.lost & _COUNTED:
            return
        (count,) = counts
        if count is not None and count not in _sums(parts, count):
            arrivals = self._uses.of(cell, Role.ARRIVE)
            told = " and ".join(str(part) for part in dict.fromkeys(parts))
            values = (("count", count), ("arrivals", told), ("total", sum(dict.fromkeys(parts))))
            yield CountFinding(rules.ARRIVALS, inits[0], tuple(arrivals), values)

    def one_phase_a_round(self, cell: Cell, loop: Loop) -> bool:
        """Whether the arrivals on `cell` in `loop` certainly complete one phase of it in every round."""
        arrivals = self._uses.inside(loop.blocks, cell, Role.ARRIVE)
        count = self.initial(cell)
        if not arrivals or count is None or not all(self._is_in(use, loop) for use in arrivals):
            return False
        parts = [self.arriving(use) for use in arrivals]
        return None not in parts and sum(part or 0 for part in parts) == count

    def initial(self, cell: Cell) -> int | None:
        """The arrivals of a phase that `cell` is initialised to, None where that is not one number."""
        if cell not in self._initialised:
            counts = {use.fact(facts.COUNT) for use in self._uses.of(cell, Role.INIT)}
            self._initialised[cell] = counts.pop() if len(counts) == 1 else None
        return self._initialised[cell]

    def _is_in(self, use: Use, loop: Loop) -> bool:
        return self._loops.innermost(use.site.block) is loop

    def _parts(self, cell: Cell) -> list[int] | None:
        """The arrivals of each instruction in one phase; None where one of them is not known."""
        parts = []
        for use in self._uses.of(cell, Role.ARRIVE):
            part = self.arriving(use)
            if part is None or not self._once_a_phase(use):
                return None
            parts.append(part)
        return parts

    def arriving(self, use: Use) -> int | None:
        """The arrivals that one execution of the instruction by all its threads makes on a barrier, None if unknown."""
        position = use.site.position
        if position not in self._arriving:
            self._arriving[position] = self._find_arriving(use)
        return self._arriving[position]

    def _find_arriving(self, use: Use) -> int | None:
        given = use.fact(facts.ARRIVALS)
        if given is not None:
            return given
        row = use.site.instr.row
        axes = {} if row is None else row.axes
        changes = "arrive_drop" in use.site.instr.opcode or (row is not None and row.opcode.startswith("cp.async"))
        if use.is_remote or changes or axes.get("multicast") or use.threads is None or self._is_spread(use):
            return None
        if axes.get("counted") and use.fact(facts.COUNT) is None:
            return None
        return use.threads * (use.fact(facts.COUNT) or 1)

    def _is_spread(self, use: Use) -> bool:
        """Whether the threads that execute it may each have an mbarrier of their own of the array."""
        if self._values is None or use.threads == 1:
            return False
        scope = self._values.scope(use.site.instr.operands.get(BARRIER, ""))
        return scope < (Scope.WARP if use.fact(facts.WARPS) == 1 else Scope.CTA)

    def _once_a_phase(self, use: Use) -> bool:
        """Whether one execution belongs to one phase: no loop, another barrier each round, or a wait for it there."""
        if use.fact(facts.ARRIVALS) is not None:
            return True
        loop = self._loops.innermost(use.site.block)
        if loop is None:
            return True
        moves = use.site.instr.sources.get(BARRIER, frozenset()) & self._loops.updates(loop).keys()
        waits = self._uses.inside(loop.blocks, use.cell, Role.WAIT)
        return bool(moves) or any(one.threads is not None for one in waits)

    # -- bytes --------------------------------------------------------------------------------------------------

    def _transactions(self, cell: Cell) -> Iterator[CountFinding]:
        expects, completes = self._uses.of(cell, Role.EXPECT), self._uses.of(cell, Role.COMPLETE)
        if not expects and not completes:
            return
        if completes and self._uses.lacks(cell, Role.EXPECT):
            yield CountFinding(rules.UNEXPECTED_BYTES, completes[0], ())
        elif expects and self._uses.lacks(cell, Role.COMPLETE):
            announced = [use for use in expects if use.fact(facts.BYTES)]
            if announced and len(announced) == len(expects):
                values = (("bytes", announced[0].fact(facts.BYTES)),)
                yield CountFinding(rules.MISSING_BYTES, announced[0], (), values)
        elif not self._uses.lost & _OF_BYTES:
            yield from self._sums(expects, completes)

    def _sums(self, expects: Sequence[Use], completes: Sequence[Use]) -> Iterator[CountFinding]:
        """The bytes announced and brought in each loop, or outside of loops, where both are known."""
        groups: dict[Loop | None, tuple[list[Use], list[Use]]] = {}
        for index, uses in enumerate((expects, completes)):
            for use in uses:
                groups.setdefault(self._loops.innermost(use.site.block), ([], []))[index].append(use)
        if not all(announced and bringing for announced, bringing in groups.values()):
            return
        for loop, (announced, bringing) in groups.items():
            expected, brought = self._total(announced), self._total(bringing)
            if expected is not None and brought is not None and expected != brought:
                when = "outside of loops" if loop is None else "in each round of the loop"
                values = (("expected", expected), ("brought", brought), ("when", when))
                yield CountFinding(rules.WRONG_BYTES, announced[0], tuple(bringing), values)

    def _total(self, uses: Sequence[Use]) -> int | None:
        parts = [self._bytes(use) for use in uses]
        return None if None in parts else sum(part or 0 for part in parts)

    def _bytes(self, use: Use) -> int | None:
        """The bytes that the instruction, executed once by all its threads, announces or brings to this CTA."""
        one = use.fact(facts.BYTES)
        if one is None and use.role & Role.COMPLETE:
            one = _brought(use.site.instr)
        ctas = self._ctas(use)
        if one is None or use.threads is None or ctas is None or self._is_spread(use):
            return None
        return one * use.threads * ctas

    def _ctas(self, use: Use) -> int | None:
        """How many CTAs of the cluster, all of which run this code, bring their bytes to this one.

        Of what they send to peers, each gets as much on an average; so much is certain where all of them wait for it.
        """
        row = use.site.instr.row
        if use.is_remote:
            return 1 if any(wait.threads is not None for wait in self._uses.of(use.cell, Role.WAIT)) else None
        if row is not None and row.axes.get("cta_group") == 2:
            return None
        if row is None or not row.axes.get("multicast"):
            return 1
        return self._cluster if use.fact(facts.MASK) == (1 << self._cluster) - 1 else None


def _brought(instr: MachineInstr) -> int | None:
    """The bytes that a copy writes, wherever that is."""
    row = instr.row
    known = next((touch.bytes for touch in instr.memory if touch.use is MemoryUse.ASYNC_WRITE), None)
    if known is None and row is not None and row.has_operand(_DESTINATION):
        known = known_extent(row, row.operand(_DESTINATION), instr.facts)
    return known


def _sums(parts: Sequence[int], most: int) -> set[int]:
    """Every sum of some of the parts, up to `most`."""
    found = {0}
    for part in parts:
        found |= {one + part for one in found if one + part <= most}
    return found - {0}
