"""What no path of a function has: the commit and the wait of a copy, the commit of an mma, the init of an mbarrier.

A call may do any of these, so a function with calls is not judged; where a function returns, its caller may.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import NOTHING, Completion, MbarrierUse, Semantics
from nvbackend.isel.flow.graphs import reached
from nvbackend.isel.flow.loops import loops_of
from nvbackend.lint.lifted.lift import Lifted, Line
from nvbackend.lint.numbers.addresses import Addresses, Bounded
from nvbackend.lint.numbers.cta import named
from nvbackend.ptx.syntax import Address

_PIECE, _MBARRIER, _SPAN = 16, 8, 128
"""Bytes from an address: a thread's piece, an mbarrier, a row of an operand of an mma."""
_WRITES, _PRIVATE = ("st", "stmatrix", "atom", "red"), ("global", "local", "param", "param::func")
"""What writes memory, and the spaces that are never shared memory."""
_ENDS_COPIES = ("cp.async.wait_all", "cp.async.mbarrier.arrive")
_COMMITS: Mapping[Completion, str] = {
    Completion.COPY_GROUP: "cp.async.commit_group",
    Completion.COMMIT: "tcgen05.commit",
}


@dataclass(frozen=True, slots=True)
class Missing:
    """What an instruction at `position` lacks: the kind, the spelling that is wanted, and whose operation it is.

    Of an mbarrier that is not initialised, `wanted` is its place in shared memory.
    """

    kind: str
    position: int
    wanted: str
    issuer: int = -1


class Absent:
    """The questions of one function, by the positions of its instructions."""

    def __init__(self, lifted: Lifted, addresses: Addresses) -> None:
        self._lifted = lifted
        self._addresses = addresses
        self._lines = lifted.lines
        self._block: list[str] = []
        self._starts: dict[str, int] = {}
        for block in lifted.function.blocks.values():
            self._starts[block.name] = len(self._block)
            self._block += [block.name] * len(block.instructions)

    def find(self) -> Iterator[Missing]:
        """Everything that is missing, by its place in the text."""
        if not self._lifted.syntax.is_entry:
            return
        yield from self._uncommitted()
        yield from self._unwaited()
        yield from self._read_early()
        yield from self._barriers()

    def waits_later(self, position: int) -> bool:
        """Whether a wait for loads from tensor memory comes after an instruction on some path."""
        return any(_said(self._lines[place]).awaits is Completion.LOAD_WAIT for place in self._after(position))

    # -- copies and multiplications ----------------------------------------------------------------------------------

    def _uncommitted(self) -> Iterator[Missing]:
        for completion, commit in _COMMITS.items():
            for position in self._issuing(completion):
                ends = (place for place in self._after(position) if self._closes(place, completion))
                if next(ends, None) is None:
                    yield Missing("uncommitted", position, commit)
                    break

    def _unwaited(self) -> Iterator[Missing]:
        for position in self._issuing(Completion.COPY_GROUP):
            if not any(self._drains(place) for place in self._after(position)):
                yield Missing("unwaited", position, "cp.async.wait_group")
                break
        for position in self._issuing(Completion.STORE_WAIT):
            after = [self._lines[place] for place in self._after(position)]
            is_used = any(line.instruction.opcode.startswith("tcgen05.mma") for line in after)
            if is_used and not any(_said(line).awaits is Completion.STORE_WAIT or _hides(line) for line in after):
                yield Missing("unwaited", position, "tcgen05.wait::st")
                return

    def _read_early(self) -> Iterator[Missing]:
        """Reads whose first execution no wait comes before on any path, of memory that only cp.async fills."""
        copies = list(self._issuing(Completion.COPY_GROUP))
        if not copies:
            return
        waits = {self._block[place]: place for place in reversed(range(len(self._lines))) if self._drains(place)}
        others = [place for place, line in enumerate(self._lines) if _stores(line)]
        for place, line in enumerate(self._lines):
            addresses, size = self._read(place, line)
            before = self._before_first(place) if addresses else None
            if before is None or any(self._is_before(wait, place, before) for wait in waits.values()):
                continue
            earlier = [copy for copy in copies if self._is_before(copy, place, before)]
            stores = [store for store in others if self._is_before(store, place, before)]
            for address in addresses:
                filled = [copy for copy in earlier if _may_be(self._addresses.at(copy, 0), address, size)]
                if filled and not any(self._may_fill(store, address, size) for store in stores):
                    yield Missing("read", place, "cp.async.wait_group", max(filled))
                    return

    def _read(self, place: int, line: Line) -> tuple[list[Bounded], int]:
        """Where the instruction reads shared memory, as far as it is known, and how many bytes at most from there."""
        if _is_shared(line, "ld", "ldmatrix"):
            addresses, size = [self._addresses.at(place, 1)], _PIECE
        elif _said(line).issues is Completion.MMA_GROUP:
            values = (self._addresses.at(place, operand) for operand in (1, 2))
            addresses, size = [value for value in values if value.packed], _SPAN * _columns(line)
        else:
            return [], 0
        return [address for address in addresses if address.base], size

    def _before_first(self, place: int) -> frozenset[str] | None:
        """The blocks that may run before an instruction runs first; None where a round of a loop may pass it by."""
        loops = loops_of(self._lifted.function)
        own = self._block[place]
        if not loops.regular or not loops.is_reachable(own):
            return None
        ways: dict[str, list[str]] = {}
        for block in self._starts:
            if not loops.is_reachable(block):
                continue
            before = loops.predecessors(block)
            around = [latch for latch in before if loops.dominates(block, latch) and self._is_round(block, latch, own)]
            if not all(loops.dominates(own, latch) for latch in around):
                return None
            ways[block] = [each for each in before if each not in around]
        return frozenset(reached(ways[own], ways.__getitem__))

    def _is_round(self, header: str, latch: str, block: str) -> bool:
        """Whether the loop from a latch back to its header has the block."""
        loops = loops_of(self._lifted.function)
        return block == header or block in reached(
            [latch], lambda each: () if each == header else loops.predecessors(each)
        )

    def _is_before(self, first: int, second: int, blocks: frozenset[str]) -> bool:
        own = self._block[first]
        return own in blocks or (own == self._block[second] and first < second)

    def _may_fill(self, store: int, address: Bounded, size: int) -> bool:
        written = self._address(store)
        return not written.base or _may_be(written, address, size)

    def _issuing(self, completion: Completion) -> Iterator[int]:
        return (place for place, line in enumerate(self._lines) if _said(line).issues is completion)

    def _closes(self, place: int, completion: Completion) -> bool:
        line = self._lines[place]
        head = line.instruction.opcode
        is_copy = completion is Completion.COPY_GROUP
        if is_copy:
            return _said(line).commits is completion or head.startswith(_ENDS_COPIES) or _hides(line)
        return head.startswith("tcgen05.commit") or _hides(line)

    def _drains(self, place: int) -> bool:
        line = self._lines[place]
        return (
            _said(line).awaits is Completion.COPY_GROUP
            or line.instruction.opcode.startswith(("cp.async.wait", "cp.async.mbarrier.arrive"))
            or _hides(line)
        )

    # -- mbarriers ---------------------------------------------------------------------------------------------------

    def _barriers(self) -> Iterator[Missing]:
        inits = [place for place, line in enumerate(self._lines) if line.instruction.opcode.startswith("mbarrier.init")]
        if any(map(_hides, self._lines)):
            return
        begun = [self._address(place) for place in inits]
        if any(not each.base for each in begun):
            return
        uses = [place for place, line in enumerate(self._lines) if _waits(line)]
        for place in uses:
            barrier = self._address(place)
            if barrier.base and not any(_may_be(each, barrier, _MBARRIER) for each in begun):
                at = barrier.low if barrier.low == barrier.high else None
                yield Missing("uninitialised", place, named(self._lifted, barrier.base, at))
                return

    def _address(self, place: int) -> Bounded:
        """The first address of the instruction."""
        for index, operand in enumerate(self._lines[place].instruction.operands):
            if isinstance(operand, Address):
                return self._addresses.at(place, index)
        return Bounded()

    # -- the flow ----------------------------------------------------------------------------------------------------

    def _after(self, position: int) -> Iterator[int]:
        """The instructions that some path reaches after this one; in a loop also those before it."""
        blocks = self._lifted.function.blocks
        own = self._block[position]
        yield from range(position + 1, self._starts[own] + len(blocks[own].instructions))
        after = reached(blocks[own].successors, lambda block: blocks[block].successors)
        for name in (each for each in self._starts if each in after):
            yield from range(self._starts[name], self._starts[name] + len(blocks[name].instructions))


def _columns(line: Line) -> int:
    """N of an mma, or M where that is more."""
    shape = re.search(r"\.m(\d+)n(\d+)", line.instruction.opcode)
    return max(int(shape[1]), int(shape[2])) if shape is not None else 0


def _said(line: Line) -> Semantics:
    return line.row.semantics if line.row is not None else NOTHING


def _hides(line: Line) -> bool:
    return line.instruction.parts[0] == "call"


def _waits(line: Line) -> bool:
    said = _said(line)
    return said.mbarrier is not None and bool(said.mbarrier & (MbarrierUse.WAIT | MbarrierUse.POLL))


def _is_shared(line: Line, *heads: str) -> bool:
    parts = line.instruction.parts
    return parts[0] in heads and any(part in ("shared", "shared::cta") for part in parts)


def _stores(line: Line) -> bool:
    """Whether it may write shared memory, other than cp.async: without a space its address may be in any."""
    parts = line.instruction.parts
    is_plain = parts[0] in _WRITES and not any(part in _PRIVATE for part in parts)
    return is_plain or _said(line).issues is Completion.BYTES


def _may_be(begun: Bounded, used: Bounded, size: int) -> bool:
    """Whether what begins here may be what is used there: `size` bytes from each address."""
    if begun.base != used.base:
        return False
    if begun.low is None or begun.high is None or used.low is None or used.high is None:
        return True
    return begun.low < used.high + size and used.low < begun.high + size
