"""mbarriers by their addresses: waits at one that is never initialised, and for a phase that nothing can complete."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import MbarrierUse
from nvbackend.isel.flow.loops import loops_of
from nvbackend.lint.numbers.addresses import Addresses
from nvbackend.lint.numbers.by_thread import CtaValues, Unknown
from nvbackend.lint.numbers.touched import said
from nvbackend.lint.rounds.progress import Progress
from nvbackend.lint.rounds.written_out import WrittenOut

_ASKS = MbarrierUse.WAIT | MbarrierUse.POLL


@dataclass(frozen=True, slots=True)
class HangingWait:
    """A wait for a phase that does not complete, and the address that it waits at.

    `phase` is None where no mbarrier is initialised there.
    """

    position: int
    address: int
    phase: int | None = None


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
        unknown = (place for place in self._uses(_ASKS) if place not in self._out.later)
        at = [(place, self._values.address(place)) for place in unknown]
        waits = [HangingWait(place, each) for place, each in at if isinstance(each, int) and each not in begun]
        return waits or [HangingWait(*each) for each in Progress(self._out, self._values, self._addresses).stuck()]

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
