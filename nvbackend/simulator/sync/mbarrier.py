"""One mbarrier object: expected and pending arrivals, pending bytes, phase. PTX ISA 9.7.13.15."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics.classes.dataclass import dataclass

MOST_ARRIVALS: Final = (1 << 20) - 1
MOST_BYTES: Final = (1 << 20) - 1
MBARRIER_BYTES: Final = 8
_PENDING_SHIFT: Final = 40
"""Where the state word holds the pending arrivals; below it is the phase."""


class MbarrierFault(Exception):
    """What an operation on an mbarrier does that it must not: a rule's id (less the family), and what is wrong."""

    def __init__(self, rule: str, problem: str) -> None:
        super().__init__(problem)
        self.rule = rule
        self.problem = problem


@dataclass(slots=True)
class Mbarrier:
    """The object at an address; `phase` counts the completed phases, `bytes` the transactions still to come.

    Every method returns whether it completed the phase, and raises MbarrierFault before it changes anything.
    """

    expected: int
    pending: int
    bytes: int = 0
    phase: int = 0

    @property
    def state(self) -> int:
        """The opaque word that an arrival gives: the phase it belongs to, and the arrivals pending before it."""
        return (self.pending << _PENDING_SHIFT) | (self.phase & ((1 << _PENDING_SHIFT) - 1))

    def states(self, count: int) -> NDArray[np.uint64]:
        """The state words that `count` arrivals one after the other give."""
        pending = self.pending - np.arange(count, dtype=np.uint64)
        return (pending << np.uint64(_PENDING_SHIFT)) | np.uint64(self.phase)

    def arrive(self, count: int = 1, *, drop: bool = False, completes: bool = True) -> bool:
        """`count` arrivals; with `drop` the later phases expect them no more; without `completes` the phase must
        stay incomplete."""
        if not 1 <= count <= MOST_ARRIVALS:
            raise MbarrierFault("arrivals", f"{count} arrivals, which are not in 1 to {MOST_ARRIVALS}")
        if count > self.pending:
            came = self.expected - self.pending
            raise MbarrierFault(
                "arrivals", f"{count} more arrivals in a phase of {self.expected}, of which {came} have come"
            )
        if not completes and count == self.pending and self.bytes == 0:
            raise MbarrierFault("arrivals", "an arrival with .noComplete that completes the phase")
        if drop:
            self.expected -= count
        self.pending -= count
        return self._advanced()

    def expect(self, count: int) -> bool:
        """`count` more bytes must come in this phase."""
        self._add_bytes(count)
        return self._advanced()

    def complete(self, count: int) -> bool:
        """`count` bytes have come."""
        self._add_bytes(-count)
        return self._advanced()

    def stays_in_its_phase(self, counts: NDArray[Any]) -> bool:
        """Whether bytes that come in these portions, one after the other, surely all come in the current phase."""
        before_last, left = self.bytes - int(counts[:-1].sum()), self.bytes - int(counts.sum())
        return (self.pending > 0 or before_last > 0) and left >= -MOST_BYTES

    def await_more(self, count: int = 1) -> None:
        """`count` more arrivals are pending in this phase (cp.async.mbarrier.arrive without .noinc)."""
        if self.pending + count > MOST_ARRIVALS:
            raise MbarrierFault("arrivals", f"{self.pending + count} pending arrivals, of {MOST_ARRIVALS} at most")
        self.pending += count

    def _add_bytes(self, count: int) -> None:
        if not -MOST_BYTES <= self.bytes + count <= MOST_BYTES:
            raise MbarrierFault(
                "expect-tx", f"{self.bytes + count} pending bytes, which are not in {-MOST_BYTES} to {MOST_BYTES}"
            )
        self.bytes += count

    def _advanced(self) -> bool:
        if self.pending or self.bytes:
            return False
        self.phase += 1
        self.pending = self.expected
        return True

    def has_passed(self, parity: int) -> bool:
        """Whether the phase of this parity, the current one or the one before it, is complete."""
        return (self.phase & 1) != parity

    def __str__(self) -> str:
        came = self.expected - self.pending
        due = f", {self.bytes} bytes still to come" if self.bytes else ""
        return f"phase {self.phase}: {came} of {self.expected} arrivals have come{due}"

    def pending_text(self) -> str:
        """The phase with its parity, and what it still waits for: arrivals and bytes."""
        due = f"{self.pending} of {self.expected} arrivals and {max(self.bytes, 0)} bytes are pending"
        if self.bytes < 0:
            due += f", and {-self.bytes} bytes have come that were not expected"
        return f"phase {self.phase} (parity {self.phase & 1}): {due}"


def made(count: int) -> Mbarrier:
    """A new mbarrier of `count` arrivals a phase. Raises MbarrierFault."""
    if not 1 <= count <= MOST_ARRIVALS:
        raise MbarrierFault("count", f"{count} arrivals a phase, which are not in 1 to {MOST_ARRIVALS}")
    return Mbarrier(count, count)


def phase_of(state: int) -> int:
    """The phase that a state word belongs to."""
    return state & ((1 << _PENDING_SHIFT) - 1)


def pending_of(state: int) -> int:
    """The arrivals that were pending when a state word was made (mbarrier.pending_count)."""
    return state >> _PENDING_SHIFT
