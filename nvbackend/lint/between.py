"""What a wait must come between: a bulk store and the next write of its source, tcgen05.st and the next tcgen05.mma.

An operation is judged with the first uses that a thread comes to after it. Any wait on a way to one of them is enough:
which of the ways is taken, and by which threads, is not asked. An mma is a use where it certainly has columns that
tcgen05.st writes: one of another tile, in other columns, may come before the wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import Completion
from nvbackend.lint.lifted.lift import Lifted, Line
from nvbackend.lint.numbers.addresses import Addresses, Bounded
from nvbackend.lint.numbers.columns import Columns, TensorColumns
from nvbackend.lint.numbers.touched import said
from nvbackend.ptx.syntax import Address, Vector

_LEAST = 16
"""The bytes that a bulk store reads at least from its address."""


@dataclass(frozen=True, slots=True)
class Unordered:
    """The instruction at `position` needs that of `issuer` to be complete, which a wait of `completion` says."""

    completion: Completion
    position: int
    issuer: int


class Between:
    """The questions of one function, by the positions of its instructions."""

    def __init__(self, lifted: Lifted, addresses: Addresses) -> None:
        self._lines = lifted.lines
        self._addresses = addresses
        self._columns = TensorColumns(lifted)
        self._next = _followers(lifted)

    def find(self) -> Iterator[Unordered]:
        """Of each kind the first in the text."""
        yield from self._first(Completion.STORE_WAIT, self._multiplied)
        yield from self._first(Completion.BULK_GROUP, self._overwritten)

    def _first(self, completion: Completion, uses: Callable[[int], frozenset[int]]) -> Iterator[Unordered]:
        issuers = [place for place, line in enumerate(self._lines) if said(line).issues is completion]
        waits = {place for place, line in enumerate(self._lines) if _is_enough(line, completion)}
        for issuer in issuers:
            wanted = uses(issuer)
            passed = self._until(issuer, wanted)
            # A wait that the issuer comes before again is too early for its next stores.
            ends = wanted | {issuer} if completion is Completion.STORE_WAIT else wanted
            waited = set[int]().union(*(self._until(wait, ends) for wait in passed & waits))
            unordered = (passed & wanted) - waited
            if completion is Completion.BULK_GROUP and waited & wanted:
                continue  # the thread that issued it may be the one that waits, before a barrier of all
            if unordered:
                yield Unordered(completion, min(unordered), issuer)
                return

    def _until(self, position: int, ends: frozenset[int]) -> set[int]:
        """What comes after an instruction, up to the first of `ends` on each way."""
        later: set[int] = set()
        waiting = list(self._next[position])
        while waiting:
            place = waiting.pop()
            if place not in later:
                later.add(place)
                waiting += [] if place in ends else self._next[place]
        return later

    def _multiplied(self, issuer: int) -> frozenset[int]:
        """The mma that have columns of the store, in D or beside it, and a barrier on every way to them."""
        written = self._written(self._lines[issuer])
        wanted = frozenset(
            place
            for place, line in enumerate(self._lines)
            if _is_multiplication(line) and any(_is_in(columns, written) for columns in self._multiplies(line))
        )
        barriers = frozenset(place for place, line in enumerate(self._lines) if said(line).barrier is not None)
        return wanted - self._until(issuer, barriers)

    def _written(self, line: Line) -> tuple[Columns, int] | None:
        """The first column that a store certainly writes, and how many: a register of each thread is one."""
        address, values = line.instruction.operands[:2]
        columns = self._columns.of(address)
        is_whole = "32x32b" in line.instruction.parts and "unpack::16b" not in line.instruction.parts
        many = len(values.elements) if is_whole and isinstance(values, Vector) else 1
        return None if columns is None else (columns, many)

    def _multiplies(self, line: Line) -> Iterator[Columns]:
        """The first column of each operand in tensor memory."""
        for operand in line.instruction.operands:
            columns = self._columns.of(operand) if isinstance(operand, Address) else None
            if columns is not None:
                yield columns

    def _overwritten(self, issuer: int) -> frozenset[int]:
        """The stores that may begin in what the bulk store reads, by a symbol and the bounds of what is added."""
        source = self._address(issuer, 1)
        if not source.base:
            return frozenset()
        return frozenset(
            place
            for place, line in enumerate(self._lines)
            if line.instruction.parts[0] in ("st", "stmatrix") and _meets(self._address(place, 0), source)
        )

    def _address(self, place: int, number: int) -> Bounded:
        """The address of an instruction that has so many addresses before it."""
        operands = self._lines[place].instruction.operands
        addressed = [index for index, operand in enumerate(operands) if isinstance(operand, Address)]
        return self._addresses.at(place, addressed[number]) if number < len(addressed) else Bounded()


def _is_multiplication(line: Line) -> bool:
    return line.instruction.opcode.startswith("tcgen05.mma")


def _is_in(columns: Columns, written: tuple[Columns, int] | None) -> bool:
    """Whether the first column of an operand is written."""
    return written is not None and columns[0] == written[0][0] and 0 <= columns[1] - written[0][1] < written[1]


def _is_enough(line: Line, completion: Completion) -> bool:
    return said(line).awaits is completion or line.instruction.parts[0] == "call"


def _meets(written: Bounded, source: Bounded) -> bool:
    if written.base != source.base:
        return False
    known = (written.low, written.high, source.low, source.high)
    if any(bound is None for bound in known):
        return True
    low, high, begun, last = (bound or 0 for bound in known)
    return low < last + _LEAST and begun <= high


def _followers(lifted: Lifted) -> list[list[int]]:
    """For each instruction those that may be next; a block without instructions is passed."""
    blocks = lifted.function.blocks
    starts: dict[str, int] = {}
    count = 0
    for block in blocks.values():
        starts[block.name] = count
        count += len(block.instructions)

    def first(names: list[str]) -> list[int]:
        begun: list[int] = []
        seen: set[str] = set()
        while names:
            name = names.pop()
            if name not in seen:
                seen.add(name)
                if blocks[name].instructions:
                    begun.append(starts[name])
                else:
                    names += blocks[name].successors
        return begun

    after: list[list[int]] = []
    for block in blocks.values():
        if block.instructions:
            begin = starts[block.name]
            after += [[place + 1] for place in range(begin, begin + len(block.instructions) - 1)]
            after.append(first(list(block.successors)))
    return after
