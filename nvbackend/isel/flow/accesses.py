"""Accesses to shared memory as runs, and whether two of them meet: the places that the proxy analysis works on."""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import Completion
from nvbackend.isel.flow.dataflow import Site, sites_of
from nvbackend.isel.flow.finished import kept_of_text
from nvbackend.isel.flow.memory_uses import defining_blocks, dense_extent, is_remote, symbol_terms
from nvbackend.isel.machine.function import MachineFunction, MachineInstr, MemoryObject, MemoryTouch, MemoryUse

_TILE_BYTES = 16
"""Parts of an allocation that are larger than this are tiles or stages: accesses inside of one belong together."""
_COMPARED = 32
"""So many accesses of a run are compared one by one; a longer run is taken by its parts and its extent only."""


class AccessKind(enum.Enum):
    """What an access is to the protocol."""

    WRITE = "write"  # ordinary code writes
    READ = "read"  # ordinary code reads
    COPY = "copy"  # cp.async writes
    LOAD = "load"  # a bulk copy writes, and completes on an mbarrier
    RECEIVE = "receive"  # as a LOAD or st.async of a peer writes, which has the same program: there, not here
    STORE = "store"  # a bulk copy reads, in a bulk group
    SEND = "send"  # a bulk copy reads, and completes on an mbarrier
    MULTIPLY = "multiply"  # wgmma reads
    MULTIPLY_5 = "multiply-5"  # tcgen05 reads, and completes on an mbarrier

    __hash__ = object.__hash__  # quick: Enum's own is of the name, and written in Python


class Relation(enum.IntEnum):
    """Whether two accesses meet."""

    NONE = 0  # they do not, or nothing says so
    PART = 1  # in one tile, and nothing says where in it; or in one allocation where copies are concerned
    SURE = 2


Part = tuple[int, tuple[tuple[str, int], ...]]
"""A tile of an allocation: its number, as a constant and run-time terms in bytes."""


@dataclass(frozen=True, eq=False)
class Run:
    """Accesses of one kind to one allocation, one after another in a block with nothing between that matters to them.

    `barriers` are the mbarriers that a LOAD completes on, None among them for one that is not known.
    """

    number: int
    kind: AccessKind
    object: MemoryObject
    accesses: Sequence[tuple[Site, MemoryTouch]]

    @property
    def site(self) -> Site:
        """Where the run begins."""
        return self.accesses[0][0]

    @cached_property
    def places(self) -> Hashable:
        """Equal for runs that meet the same others in the same way: kind, allocation, and all of each access."""
        return (
            *(self.kind.value, self.object.id),
            *(
                (site.instr.opcode, id(site.instr.row), touch.operand, touch.offset, touch.symbol, touch.bytes)
                for site, touch in self.accesses
            ),
        )

    @cached_property
    def blocks(self) -> frozenset[str]:
        """The blocks that define the run-time values of its places."""
        return frozenset().union(*(defining_blocks(touch.symbol) for _, touch in self.accesses))

    @cached_property
    def barriers(self) -> frozenset[MemoryObject | None]:
        """The mbarriers that the accesses complete on."""
        return frozenset(_barrier(site.instr) for site, _ in self.accesses)

    @cached_property
    def parts(self) -> frozenset[Part]:
        """The tiles that it accesses; empty where the allocation has none or a place is unknown."""
        return frozenset(part for _, _, part, _ in self._placed if part is not None)

    @cached_property
    def filled(self) -> frozenset[Part]:
        """The tiles of which it accesses every byte."""
        return frozenset(part for part, size in self._sizes().items() if part and size >= self.object.element_bytes)

    @cached_property
    def whole(self) -> bool:
        """Whether it accesses every byte of the allocation."""
        return sum(size for part, size in self._sizes().items() if not part or not part[1]) >= self.object.bytes

    @cached_property
    def _placed(self) -> Sequence[tuple[Site, MemoryTouch, Part | None, bool]]:
        """Each access with its tile, and whether its place in that, or in the allocation, is known."""
        return [(site, touch, *_part_and_place(touch)) for site, touch in self.accesses]

    def _sizes(self) -> Mapping[Part | None, int]:
        """Bytes accessed of each tile, or, for an allocation without tiles, at places known within it."""
        places = {
            (touch.offset, touch.symbol): (touch, part, _counted(site.instr, touch))
            for site, touch, part, is_known in self._placed
            if is_known
        }
        sizes: dict[Part | None, int] = {}
        ends: dict[str, int] = {}
        for (offset, symbol), (touch, part, size) in sorted(places.items(), key=lambda place: place[0]):
            begin = offset
            if size == touch.bytes:  # what has gaps may interleave with others, but overlaps none
                begin = max(offset, ends.get(symbol, offset))
                ends[symbol] = max(begin, offset + size)
            sizes[part] = sizes.get(part, 0) + max(0, offset + size - begin)
        return sizes


def relation(first: Run, second: Run) -> Relation:
    """Whether the two meet, as far as offsets and symbols say."""
    if first.object != second.object:
        return Relation.NONE
    if first.whole or second.whole or first.filled & second.parts or second.filled & first.parts:
        return Relation.SURE
    overlap = Relation.PART if first.parts & second.parts else Relation.NONE
    unknown = False
    for site, touch in first.accesses[:_COMPARED]:
        for other_site, other in second.accesses[:_COMPARED]:
            known = _meet(site.instr, touch, other_site.instr, other)
            if known is True:
                return Relation.SURE
            unknown = unknown or known is None
    if not unknown:
        return Relation.NONE
    return Relation.PART if AccessKind.COPY in (first.kind, second.kind) else overlap


def accesses_of(instr: MachineInstr) -> Iterator[tuple[AccessKind, MemoryTouch]]:
    """What the instruction does to shared memory of this CTA, other than to an mbarrier."""
    for touch in instr.memory:
        kind = _kind(instr, touch)
        if touch.object.space == "shared" and kind is not None:
            yield kind, touch


@kept_of_text
def shared_accesses(function: MachineFunction) -> Mapping[int, Sequence[tuple[AccessKind, MemoryTouch]]]:
    """The accesses of all instructions that have any, by their positions."""
    sites = (site for of_block in sites_of(function).values() for site in of_block)
    return {site.position: accesses for site in sites if (accesses := [*accesses_of(site.instr)])}


def _kind(instr: MachineInstr, touch: MemoryTouch) -> AccessKind | None:
    if touch.use is MemoryUse.WRITE and instr.semantics.issues is Completion.COPY_GROUP:
        return AccessKind.COPY
    if touch.use is MemoryUse.ASYNC_WRITE:
        return None if instr.row is None else AccessKind.RECEIVE if is_remote(instr.row) else AccessKind.LOAD
    return _ASYNC_READS.get(instr.semantics.issues) if touch.use is MemoryUse.ASYNC_READ else _KINDS.get(touch.use)


_KINDS = {MemoryUse.READ: AccessKind.READ, MemoryUse.WRITE: AccessKind.WRITE}
_ASYNC_READS: dict[Completion | None, AccessKind] = {
    Completion.COMMIT: AccessKind.MULTIPLY_5,
    Completion.MMA_GROUP: AccessKind.MULTIPLY,
    Completion.BYTES: AccessKind.SEND,
    Completion.BULK_GROUP: AccessKind.STORE,
}
"""By what tells that it is done."""


def _barrier(instr: MachineInstr) -> MemoryObject | None:
    return next((touch.object for touch in instr.memory if touch.use is MemoryUse.SYNCHRONIZE), None)


def _part(touch: MemoryTouch) -> Part | None:
    return _part_and_place(touch)[0]


def _part_and_place(touch: MemoryTouch) -> tuple[Part | None, bool]:
    """The tile of an access, None where there are none, and whether all its run-time terms lead to a tile."""
    size, terms = touch.object.element_bytes, symbol_terms(touch.symbol)
    if size <= _TILE_BYTES:
        return None, not terms
    stage = tuple([term for term in terms if term[1] % size == 0])
    return (touch.offset // size, stage), stage == terms


def _counted(instr: MachineInstr, touch: MemoryTouch) -> int:
    """The bytes that the access surely touches; an operand of wgmma has gaps where it is a part of a tile."""
    if touch.bytes is None:
        return 0
    return touch.bytes if instr.row is None else dense_extent(instr.row, touch.operand, touch.bytes)


def _meet(instr: MachineInstr, touch: MemoryTouch, other_instr: MachineInstr, other: MemoryTouch) -> bool | None:
    """Whether two accesses share a byte; None where that is not known."""
    if touch.symbol != other.symbol:
        return None if _part(touch) is None or _part(other) is None else _same_part(touch, other)
    if touch.offset == other.offset:
        return True
    (instr, lower), higher = ((instr, touch), other) if touch.offset < other.offset else ((other_instr, other), touch)
    if lower.bytes is None:
        return None
    if lower.offset + lower.bytes <= higher.offset:
        return False
    return True if _counted(instr, lower) == lower.bytes else None


def _same_part(touch: MemoryTouch, other: MemoryTouch) -> bool | None:
    """False for other_part tiles that are surely different, else None."""
    part, other_part = _part(touch), _part(other)
    assert part is not None
    assert other_part is not None
    return False if part[1] == other_part[1] and part[0] != other_part[0] else None
