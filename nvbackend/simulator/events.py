"""The events of a run, for observers: accesses, synchronisation, operations in flight.

A thread is an integer: its place among the threads of the wave (`machine.wave.Wave`), where each CTA begins at a whole
warp. `Site` is the instruction in the PTX, `By` who does something and where, `Pending` an operation in flight.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics import Location
from nvbackend.diagnostics.classes.dataclass import dataclass

Bits = NDArray[Any]
"""Raw bits: bool, uint8, uint16, uint32 or uint64 with one element a lane; b128 is (n, 2) uint64."""
Threads = NDArray[np.int64]
Addresses = NDArray[np.uint64]
Mask = NDArray[np.bool_]
Kind = Literal["read", "write", "atomic"]


@dataclass(frozen=True, slots=True)
class Site:
    """An instruction of the PTX text: its line and spelling, and by `.loc` the line of Python or CUDA."""

    source: str
    line: int
    text: str
    function: str
    origin: Location | None = None

    @property
    def location(self) -> Location:
        """Where a diagnostic points: the line of the user's program where it is known, else that of the PTX."""
        return self.origin or Location(self.source, self.line, self.function)

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}"


@dataclass(eq=False)
class Pending:
    """An operation in flight: what was issued and is not done. Each engine makes its own class of it.

    `threads` are those that issued it. The scheduler calls `complete` when no warp can go on (or, for a seed, at
    another time), once and only where `ready()`; `complete` reads the sources and writes the destinations then. An
    operation that must come after another one names it in `after`: the scheduler completes that one first.
    """

    site: Site
    threads: Threads
    engine: str
    after: tuple[Pending, ...] = field(default=(), kw_only=True)
    done: bool = field(default=False, init=False)

    def ready(self) -> bool:
        """Whether it may complete now, apart from `after`."""
        return True

    def complete(self) -> None:
        """Do it."""
        raise NotImplementedError


@dataclass(slots=True)
class By:
    """Who accesses memory, from which instruction. It does not change, and is made too often to be frozen.

    `threads` are the threads, one an access or one for all of them. Of an engine's access `operation` is what is in
    flight and `threads` the one that issued it. `proxy` is generic, async or tensormap; `order` is weak, nc (a
    non-coherent load), relaxed, acquire, release, acq_rel or volatile, with `scope` cta, cluster, gpu or sys. Where
    lanes of a warp come together, `members` has a bit for each lane that a thread meets; None is all of its warp.
    """

    site: Site
    threads: Threads
    operation: Pending | None = None
    proxy: str = "generic"
    order: str = "weak"
    scope: str = ""
    members: NDArray[np.uint32] | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """Bytes that were read or written: `size` of them at each address, in one allocation or window.

    `space` is global, shared, local, const, param or tensor. `owners` are the CTAs (in the wave) whose shared or tensor
    memory, or the threads whose local memory it is; addresses are offsets there. Else `owners` is None.
    """

    by: By
    kind: Kind
    space: str
    addresses: Addresses
    size: int
    owners: NDArray[np.int64] | None = None
    changed: Mask | None = None
    """Of a write: which addresses had another value before it."""
    lost: Mask | None = None
    """Of a write: which addresses another thread of the same step has given another value; None where there is none."""
    kept: Mask | None = None
    """Of an atomic: which addresses have the value that they had before it."""


@dataclass(frozen=True, slots=True)
class Sync:
    """One side of a synchronisation: what `threads` (or `operation`) did before a release is seen after an acquire of
    the same token. A token is any hashable, such as ("mbarrier", CTA, offset, phase)."""

    by: By
    token: Hashable


class Observer(Protocol):
    """What watches a run. Every method is called after the event, in the order of the events."""

    def access(self, access: Access) -> None:
        """Bytes were read or written."""

    def release(self, sync: Sync) -> None:
        """What came before is published under the token."""

    def acquire(self, sync: Sync) -> None:
        """What was published under the token is seen from here on."""

    def fence(self, by: By, kind: str) -> None:
        """A fence: `kind` is its spelling after the opcode, such as `proxy.async.shared::cta` or `acq_rel.gpu`; or
        `warp`, where lanes of a warp have come together."""

    def issued(self, operation: Pending) -> None:
        """An operation is in flight."""

    def completed(self, operation: Pending) -> None:
        """It is done."""

    def waited(self, by: By, what: str) -> None:
        """Threads could not go on."""

    def exited(self, by: By) -> None:
        """Threads ended."""
