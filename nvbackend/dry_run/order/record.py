"""Accesses as they are remembered: who made them, where in the program, and in which round of its loops."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any, NamedTuple

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.dry_run.order.granules import Addresses, Granules, Sixteens, granules
from nvbackend.dry_run.when import When
from nvbackend.intrinsics.row.semantics import WARP_SIZE, Completion, Matrix
from nvbackend.isel.machine.function import MachineInstr


class Span(NamedTuple):
    """The least and the greatest of several addresses, and the bits of all of them."""

    first: int
    last: int
    bits: int


def span_of(addresses: Addresses) -> Span:
    """The span of an address, or of several."""
    if isinstance(addresses, int):
        return Span(addresses, addresses, addresses)
    if not addresses:
        return Span(0, 0, 0)
    return Span(min(addresses), max(addresses), functools.reduce(operator.or_, addresses))


@dataclass(eq=False)
class Part:
    """The access of one instruction: `size` bytes at each of the `addresses`.

    Where these are one warp's part of a tile that a warpgroup reads, `tile` has the addresses of all warps.
    """

    instr: MachineInstr
    addresses: Addresses
    size: int
    operand: str
    tile: tuple[Addresses, ...] = ()
    swizzle: int | None = None
    """The bytes of the pattern by which it is read or written, 0 without one; None where that is not known."""

    span: Span | None = None
    """That of the addresses, where it is known already."""
    sixteens: Sixteens | None = None
    """The granules of 16 bytes that are these, where that is known already."""

    first: int = field(init=False)
    """The least address."""
    end: int = field(init=False)
    """What comes after the last byte."""
    bits: int = field(init=False)
    """The bits of all addresses and of the size: what granules must be aligned to."""
    is_inside: bool = False
    """Whether it is known to stay in its allocation, whose name was learnt from it."""

    def __post_init__(self) -> None:
        self.first, last, every = self.span or span_of(self.addresses)
        self.end, self.bits = last + self.size, every | self.size
        self._granules: dict[int, Granules] = {}

    @property
    def bytes(self) -> int:
        """All bytes that it accesses."""
        return self.size if isinstance(self.addresses, int) else self.size * len(self.addresses)

    def granules(self, shift: int) -> Granules:
        """The granules of `1 << shift` bytes, which are small enough."""
        found = self._granules.get(shift)
        if found is None:
            found = self._granules[shift] = granules(self.addresses, self.size, shift, self.sixteens)
        return found

    def parted(self, by: int, lanes: int, *, writes: bool) -> tuple[Part | None, Part] | None:
        """What the lanes `by` access here: the part of those among `lanes`, None where there is none, and the rest.

        None where there is no rest, or where it is not known which lane has which address, or which of several `writes`
        a byte.
        """
        if not by & ~lanes:
            return None
        if isinstance(self.addresses, int):
            if not by & lanes:
                return None, self
            return None if writes else (self, replace(self, is_inside=self.is_inside))
        if len(self.addresses) != by.bit_count():
            return None
        among = [lanes >> lane & 1 for lane in range(WARP_SIZE) if by >> lane & 1]
        theirs, others = (self._of(among, side) for side in (1, 0))
        return (theirs if any(among) else None), others

    def _of(self, among: Sequence[int], side: int) -> Part:
        assert not isinstance(self.addresses, int)
        chosen = tuple(address for address, one in zip(self.addresses, among, strict=True) if one == side)
        return replace(self, addresses=chosen, span=None, sixteens=None, is_inside=self.is_inside)

    def covers(self, address: int, bytes: int) -> bool:
        """Whether it touches any of the bytes."""
        every = (self.addresses,) if isinstance(self.addresses, int) else self.addresses
        return any(first < address + bytes and address < first + self.size for first in every)


@dataclass(slots=True, eq=False)
class Record:
    """Accesses of one event to one CTA's shared memory: reads or writes.

    `engine` names what makes an asynchronous one, "" where the warp does; `barrier` and `phase` are where its bytes
    complete, and `guard` is the last wait that its warp had passed. `replaced` is the latest event among the writes
    that a write replaces, -1 for none, and `readers` are the CTAs and warps that had read these.
    """

    event: int
    cta: int
    warp: int
    writes: bool
    rounds: When
    engine: str = ""
    atomic: bool = False
    proxy: bool = False
    """Through the async proxy."""
    barrier: Any = None
    phase: int = 0
    guard: Any = None
    replaced: int = -1
    source: object = None
    """What a copy reads, where that is known."""
    hidden: int = 0
    """Events that only other lanes of the warp have waited for."""
    untold: MachineInstr | None = None
    """The arrival of other lanes of the warp, which had not met since, and which therefore does not tell of it."""
    later_than: frozenset[int] = frozenset()
    """Where data decides its place: the instructions whose accesses of the same event came before, by their ids."""
    readers: set[tuple[int, int]] = field(default_factory=set)
    parts: list[Part] = field(default_factory=list)

    @property
    def is_generic(self) -> bool:
        """Whether it goes through the generic proxy: what a warp accesses itself, and copies of cp.async."""
        return not self.engine or self.parts[0].instr.semantics.issues is Completion.COPY_GROUP

    def part_at(self, address: int, bytes: int) -> Part:
        """The part that touches the bytes, or the first."""
        return next((part for part in self.parts if part.covers(address, bytes)), self.parts[0])


def is_of_matrix(part: Part) -> bool:
    """Whether a warp reads or writes it as a matrix, by lines."""
    return any(isinstance(one.extent, Matrix) for one in part.instr.semantics.memory if one.name == part.operand)
