"""Shared memory: what lets it be filled again, and what ordinary code writes there for the async proxy to read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import cached_property

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.row import RegisterClass, Row
from nvbackend.intrinsics.row.semantics import Completion, FenceOf, MbarrierUse, Proxy
from nvbackend.isel.flow.dataflow import Site, solve
from nvbackend.isel.flow.graphs import ControlFlow, reached
from nvbackend.lint.lifted.lift import Lifted, Line
from nvbackend.lint.numbers.addresses import Addresses, Bounded
from nvbackend.ptx.syntax import Address, Name

_SHARED = (RegisterClass.SHARED, RegisterClass.SHARED_CLUSTER)
_STORES = ("st", "stmatrix")
_COPIES = (Completion.BYTES, Completion.COPY_GROUP)
_LARGEST_COPY = 16
"""Bytes that one cp.async brings at most; its address is a multiple of what it brings."""
Fill = tuple[Bounded, int | None]
"""Where a copy writes, and how many bytes at most."""
Start = tuple[str, int]
"""Where memory starts: the symbol, and bytes from there."""


@dataclass
class SharedMemory:
    """What a function does with shared memory."""

    lifted: Lifted
    addresses: Addresses

    @cached_property
    def cyclic(self) -> frozenset[str]:
        """The blocks of loops that issue a wgmma."""
        blocks = self.lifted.function.blocks
        flow = ControlFlow({name: block.successors for name, block in blocks.items()})
        cyclic: set[str] = set()
        for name in flow.successors:
            issues = (instr.semantics.issues for instr in blocks[name].instructions)
            if name not in cyclic and Completion.MMA_GROUP in issues and name in (after := self._after(name)):
                before: set[str] = reached([name], flow.predecessors.__getitem__)
                cyclic |= after & before
        return frozenset(cyclic)

    def _after(self, name: str) -> set[str]:
        """The blocks that may come after a block, with it where it is in a loop."""
        blocks = self.lifted.function.blocks
        return reached(blocks[name].successors, lambda block: blocks[block].successors)

    @cached_property
    def releases(self) -> frozenset[int]:
        """The instructions by which shared memory that a wgmma reads is filled again.

        Copies into shared memory, in a loop that multiplies; and arrivals on the mbarriers that only a loop of copies
        waits for.
        """
        releasing: set[int] = set()
        released = self._released_barriers()
        for place, line, block in self._placed():
            said = line.row.semantics if line.row is not None else None
            if said is None:
                continue
            fills = said.issues in _COPIES and block in self.cyclic and _fills_shared(line.row)
            arrives = said.mbarrier is MbarrierUse.ARRIVE and self._address(place, line).base in released
            if fills or arrives:
                releasing.add(place)
        return frozenset(releasing)

    def _released_barriers(self) -> set[str]:
        """The arrays of mbarriers that are waited for in loops of copies, and nowhere that multiplies."""
        copying = {
            block
            for _, line, block in self._placed()
            if line.row is not None and line.row.semantics.issues is Completion.BYTES and block not in self.cyclic
        }
        waited: dict[str, set[bool]] = {}
        for place, line, block in self._placed():
            said = line.row.semantics if line.row is not None else None
            if said is None or said.mbarrier is None or not said.mbarrier & (MbarrierUse.WAIT | MbarrierUse.POLL):
                continue
            after = self._after(block) | {block}
            is_producer = bool(copying & after) and block not in self.cyclic and not self.cyclic & after
            waited.setdefault(self._address(place, line).base, set()).add(is_producer)
        return {base for base, producers in waited.items() if base and producers == {True}}

    def _address(self, place: int, line: Line) -> Bounded:
        """The address of an mbarrier: the first operand that is an address."""
        for index, operand in enumerate(line.instruction.operands):
            if isinstance(operand, Address):
                return self.addresses.at(place, index)
        return Bounded()

    def _placed(self) -> Iterator[tuple[int, Line, str]]:
        place = 0
        for block in self.lifted.function.blocks.values():
            for _ in block.instructions:
                yield place, self.lifted.lines[place], block.name
                place += 1

    # -- the proxies ----------------------------------------------------------------------------------------------

    def unfenced(self) -> Iterator[tuple[Site, int]]:
        """Reads through the async proxy of what ordinary code wrote, with no fence on any path, and those writes."""
        writes = {place: start for place in self._stores() if (start := _start(self.addresses.at(place, 0)))}
        reads = dict(self._async_reads())
        if not writes or not reads:
            return
        fills = dict(self._fills())
        analysis = _Unfenced(writes, fills)
        for site, state in solve(self.lifted.function, analysis).visit():
            for start, by_mma in reads.get(site.position, ()):
                if by_mma and any(_may_hold(fill, start) for fill in fills.values()):
                    continue
                same = [place for place, other in writes.items() if other == start and place in state.pending]
                if same and all(state.pending[place] == {False} for place in same):
                    yield site, max(same)
                    break

    def _stores(self) -> Iterator[int]:
        for place, line, _ in self._placed():
            parts = line.instruction.parts
            if (
                parts[0] in _STORES
                and "async" not in parts
                and any(part in ("shared", "shared::cta") for part in parts)
            ):
                yield place

    def _fills(self) -> Iterator[tuple[int, Fill]]:
        for place, line, _ in self._placed():
            if line.row is not None and line.row.semantics.issues in _COPIES and _fills_shared(line.row):
                is_small = line.row.semantics.issues is Completion.COPY_GROUP
                yield place, (self.addresses.at(place, 0), _LARGEST_COPY if is_small else None)

    def _async_reads(self) -> Iterator[tuple[int, list[tuple[Start, bool]]]]:
        for place, line, _ in self._placed():
            row = line.row
            if row is None or row.semantics.proxy is not Proxy.ASYNC:
                continue
            starts = []
            if row.semantics.issues is Completion.MMA_GROUP or row.semantics.multiplies:
                for index in (1, 2):
                    if index < len(line.instruction.operands) and isinstance(line.instruction.operands[index], Name):
                        value = self.addresses.at(place, index)
                        starts += [(start, True) for start in (_start(value),) if start and value.packed]
            elif row.semantics.issues is Completion.BULK_GROUP:
                starts += [(start, False) for start in (_start(self.addresses.at(place, 1)),) if start]
            if starts:
                yield place, starts


@dataclass(frozen=True, slots=True)
class _State:
    """Stores that may have been executed, and whether a fence came after them, on some path."""

    pending: Mapping[int, frozenset[bool]] = field(default_factory=dict)


class _Unfenced:
    """Stores since which there was no fence of the proxies, for the solver."""

    def __init__(self, writes: Mapping[int, Start], fills: Mapping[int, Fill]) -> None:
        self._writes = writes
        self._fills = fills

    def entry(self) -> _State:
        """Nothing is written."""
        return _State()

    def join(self, left: _State, right: _State, /) -> _State:
        """What may be written on either way."""
        if left is right:
            return left
        pending = dict(left.pending)
        for place, fenced in right.pending.items():
            pending[place] = pending.get(place, frozenset()) | fenced
        return _State(pending)

    def transfer(self, state: _State, site: Site, /) -> _State:
        """What may be written after the instruction."""
        fence = site.instr.semantics.fence
        if site.position in self._writes:
            start = self._writes[site.position]
            others = {place: fenced for place, fenced in state.pending.items() if self._writes[place] != start}
            return _State({**others, site.position: frozenset((False,))})
        if site.instr.opcode.startswith("call") or (fence is not None and fence.of is FenceOf.ASYNC_PROXY):
            return _State(dict.fromkeys(state.pending, frozenset((True,)))) if state.pending else state
        filled = self._fills.get(site.position)
        if filled is not None and state.pending:
            left = {place: some for place, some in state.pending.items() if not _may_hold(filled, self._writes[place])}
            return _State(left)
        return state


def _start(value: Bounded) -> Start | None:
    return (value.base, value.low) if value.base and value.low is not None else None


def _may_hold(filled: Fill, start: Start) -> bool:
    """Whether a copy to there may bring what starts at `start`."""
    copy, extent = filled
    if not copy.base:
        return True
    if copy.base != start[0] or (copy.low is not None and copy.low > start[1]):
        return False
    return extent is None or copy.high is None or start[1] < (copy.high // extent + 1) * extent


def _fills_shared(row: Row | None) -> bool:
    if row is None:
        return False
    return any(
        access.writes and row.has_operand(access.name) and row.operand(access.name).register in _SHARED
        for access in row.semantics.memory
    )
