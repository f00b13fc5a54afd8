"""Arrivals on mbarriers: what the kernel's instructions add up to, against what a phase is initialised to.

Only sums that are certain are compared: every part is a number, executed by a known number of threads, once for each
phase. Where one part is unknown, nothing is reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nvbackend.intrinsics.row.semantics import BARRIER, Completion, MbarrierUse, Scope
from nvbackend.isel.flow.loops import Loop, Loops
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import RunTimeValues
from nvbackend.isel.protocols.mbarrier import rules
from nvbackend.isel.protocols.mbarrier.finding import CountFinding, is_spread
from nvbackend.isel.protocols.mbarrier.uses import Cell, Use, Uses

_COUNTED = MbarrierUse.INIT | MbarrierUse.ARRIVE


class Counts:
    """The sums of one function, over the threads of a CTA."""

    def __init__(self, uses: Uses, loops: Loops, values: RunTimeValues | None) -> None:
        self._uses = uses
        self._loops = loops
        self._values = values
        self._initialised: dict[Cell, int | None] = {}
        self._arriving: dict[int, int | None] = {}

    def findings(self, cell: Cell) -> Iterator[CountFinding]:
        """The arrivals on a barrier, if they certainly are not what they must be."""
        inits, waits = self._uses.of(cell, MbarrierUse.INIT), self._uses.of(cell, MbarrierUse.WAIT)
        parts = self._parts(cell)
        if self._uses.lacks(cell, MbarrierUse.ARRIVE) or (parts and not any(parts)):
            endless = [use for use in waits if use.fact(facts.PARITY) != 1]
            if inits and endless and not self._uses.lost:
                yield CountFinding(rules.NO_ARRIVAL, endless[0], tuple(inits))
            return
        count = self.initial(cell)
        if count is None or self._uses.lost & _COUNTED:
            return
        arrivals = self._uses.of(cell, MbarrierUse.ARRIVE)
        if not parts:
            # What leaves for good is at most what there is, whatever else arrives and however often.
            parts = [part for use in arrivals if (part := self._leaving(use)) and part > count]
        if parts and count not in sums(parts, count):
            told = " and ".join(str(part) for part in dict.fromkeys(parts))
            enough = "one thread arrive, in `with k.one_thread():`" if count == 1 else f"{count} threads arrive"
            values = (
                *(("count", "1 arrival" if count == 1 else f"{count} arrivals"), ("arrivals", told)),
                *(("total", sum(dict.fromkeys(parts))), ("enough", enough)),
            )
            yield CountFinding(rules.ARRIVALS, inits[0], tuple(arrivals), values)

    def one_phase_a_round(self, cell: Cell, loop: Loop) -> bool:
        """Whether the arrivals on `cell` in `loop` certainly complete one phase of it in every round."""
        arrivals = self._uses.inside(loop.blocks, cell, MbarrierUse.ARRIVE)
        if not all(self._loops.innermost(use.site.block) is loop and self._is_even(use) for use in arrivals):
            return False
        parts = [self.arriving(use) for use in arrivals]
        return None not in parts and sum(filter(None, parts)) == self.initial(cell)

    def initial(self, cell: Cell) -> int | None:
        """The arrivals of a phase that `cell` is initialised to, None where that is not one number."""
        if cell not in self._initialised:
            counts = {use.fact(facts.COUNT) for use in self._uses.of(cell, MbarrierUse.INIT)}
            self._initialised[cell] = counts.pop() if len(counts) == 1 else None
        return self._initialised[cell]

    def _parts(self, cell: Cell) -> list[int] | None:
        """The arrivals of each instruction in one phase; None where one of them is not known."""
        parts = []
        for use in self._uses.of(cell, MbarrierUse.ARRIVE):
            part = self.arriving(use)
            if part is None or not self.once_a_phase(use):
                return None
            parts.append(part)
        return parts

    def arriving(self, use: Use) -> int | None:
        """The arrivals that one execution of the instruction by all its threads makes on a barrier, None if unknown."""
        position = use.site.position
        if position not in self._arriving:
            self._arriving[position] = self._find_arriving(use)
        return self._arriving[position]

    def _leaving(self, use: Use) -> int | None:
        """The arrivals that one execution of an arrive_drop takes from all later phases, None if unknown."""
        each = _of_one_thread(use) if MbarrierUse.RECOUNT in use.role and not use.is_remote else None
        if each is None or use.threads is None or self.is_spread(use, use.threads):
            return None
        return use.threads * each

    def _find_arriving(self, use: Use) -> int | None:
        arrivals = use.fact(facts.ARRIVALS)
        if arrivals is not None:
            return arrivals
        each, is_many = multiplicity(use), use.site.instr.semantics.multicast
        if use.is_remote or is_many or each is None or use.threads is None or self.is_spread(use, use.threads):
            return None
        return use.threads * each

    def is_spread(self, use: Use, threads: int) -> bool:
        """Whether the threads that execute it may each have an mbarrier of their own of the array."""
        return is_spread(self._values, use, threads)

    def is_outside_of_loops(self, use: Use) -> bool:
        """Whether each thread that reaches it does so once."""
        return self._loops.innermost(use.site.block) is None

    def _is_even(self, use: Use) -> bool:
        """Whether all threads that execute it do so equally often."""
        return use.threads == 1 or self._loops.is_even(use.site.block, Scope.CTA)

    def once_a_phase(self, use: Use) -> bool:
        """Whether one execution belongs to one phase: no loop, another barrier each round, or a wait for it there.

        Threads that run different numbers of rounds may bring to one phase what they arrive in several.
        """
        if use.fact(facts.ARRIVALS) is not None:
            return True
        loop = self._loops.innermost(use.site.block)
        if loop is None:
            return True
        if not self._is_even(use):
            return False
        moves = use.site.instr.sources.get(BARRIER, frozenset()) & self._loops.updates(loop).keys()
        waits = self._uses.inside(loop.blocks, use.cell, MbarrierUse.WAIT)
        return bool(moves) or any(wait.threads is not None for wait in waits)


def multiplicity(use: Use) -> int | None:
    """The arrivals of one thread that executes it; None where they are not known, or not of one phase alone."""
    changes = MbarrierUse.RECOUNT in use.role or use.site.instr.semantics.tracks is Completion.COPY_GROUP
    return None if changes else _of_one_thread(use)


def _of_one_thread(use: Use) -> int | None:
    """The arrivals that it makes when one thread executes it, None where that is in a register."""
    row = use.site.instr.row
    counted = row is not None and row.has_operand(facts.COUNT)
    return use.fact(facts.COUNT) if counted else use.fact(facts.COUNT) or 1


def sums(parts: Sequence[int], most: int) -> set[int]:
    """Every sum of some of the parts, up to `most`."""
    totals = {0}
    for part in parts:
        totals |= {total + part for total in totals if total + part <= most}
    return totals - {0}
