"""mbarriers by their addresses: waits at one that is never initialised, and for a phase that nothing can complete.

The first arrival at an mbarrier completes no phase of a thread that is to wait before it: where all arrivals come after
a wait for the first phase on every path, no thread passes the wait, and none arrives. An arrival also comes after it
where more barriers of the CTA are before it, on each path: they wait for the thread that waits for the phase.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from nvbackend.intrinsics.row.semantics import MbarrierUse
from nvbackend.isel.flow.loops import loops_of
from nvbackend.lint.lifted.barrier_counts import BarrierCounts
from nvbackend.lint.numbers.addresses import Addresses
from nvbackend.lint.numbers.by_thread import CtaValues, Unknown
from nvbackend.lint.numbers.touched import said
from nvbackend.lint.rounds.written_out import WrittenOut
from nvbackend.ptx.syntax import Address

_ASKS = MbarrierUse.WAIT | MbarrierUse.POLL


@dataclass(frozen=True, slots=True)
class HangingWait:
    """A wait: for a phase of an mbarrier that is `uninitialised`, or that no arrival completes."""

    position: int
    uninitialised: bool


class BarrierWaits:
    """The questions of one function, written out."""

    def __init__(self, out: WrittenOut, values: CtaValues, addresses: Addresses) -> None:
        self._out = out
        self._addresses = addresses
        self._lines = out.lifted.lines
        self._values = values
        self._reached = loops_of(values.function)
        self._block: dict[int, str] = {}
        for block in values.function.blocks.values():
            start = len(self._block)
            self._block.update((start + at, block.name) for at in range(len(block.instructions)))

    def find(self) -> list[HangingWait]:
        """The waits that are wrong, by their places."""
        if not self._out.lifted.syntax.is_entry or any(line.instruction.parts[0] == "call" for line in self._lines):
            return []
        begun = self._begun
        if begun is None:
            return []
        stuck = []
        for place in self._uses(_ASKS):
            address = self._values.address(place)
            if place in self._out.later or not isinstance(address, int):
                continue
            if address not in begun:
                stuck.append(HangingWait(place, uninitialised=True))
            elif self._is_first(place) and self._comes_before_all(place, address):
                stuck.append(HangingWait(place, uninitialised=False))
        return stuck

    @cached_property
    def _begun(self) -> set[int] | None:
        """The addresses of all mbarriers that are initialised; None where some are not known."""
        begun = set()
        for place in self._uses(MbarrierUse.INIT):
            address = self._values.address(place)
            if isinstance(address, Unknown):
                return None
            begun |= {address} if isinstance(address, int) else {int(each) for each in address}
        return begun

    def _uses(self, which: MbarrierUse) -> Iterator[int]:
        for place, line in enumerate(self._lines):
            use = said(line).mbarrier
            if use is not None and use & which and self._reached.is_reachable(self._block[place]):
                yield place

    def _is_first(self, place: int) -> bool:
        """Whether it waits for the first phase: for parity 0, with no other wait before it that tells of a phase."""
        return ".parity" in self._lines[place].instruction.opcode and self._parity(place) == 0

    def _parity(self, place: int) -> int | None:
        operands = self._lines[place].instruction.operands
        value = self._values.at(place, 2) if len(operands) > 2 else None
        return value if isinstance(value, int) else None

    def _comes_before_all(self, wait: int, address: int) -> bool:
        """Whether every arrival that may be at the mbarrier comes after the wait, whichever way threads take."""
        for place in self._uses(MbarrierUse.ARRIVE):
            at = self._values.address(place)
            is_other = at != address if isinstance(at, int) else self._is_of_another(place, wait)
            if not is_other and not self._is_after(place, wait):
                return False
        return True

    def _is_of_another(self, place: int, wait: int) -> bool:
        """Whether its mbarrier is in another variable than that of the wait, whichever element of it."""
        arrival, waited = self._variable(place), self._variable(wait)
        return bool(arrival and waited) and arrival != waited

    def _variable(self, place: int) -> str:
        """The variable in shared memory that the first address of an instruction is in; empty where it is not known."""
        operands = self._lines[place].instruction.operands
        first = next((at for at, operand in enumerate(operands) if isinstance(operand, Address)), None)
        return "" if first is None else self._addresses.at(self._out.origin[place], first).base

    def _is_after(self, place: int, wait: int) -> bool:
        own, before = self._block[place], self._block[wait]
        if own == before:
            return wait < place
        return self._reached.dominates(before, own) or self._barriers.are_more(place, wait)

    @cached_property
    def _barriers(self) -> BarrierCounts:
        return BarrierCounts(self._values.function, self._lines)
