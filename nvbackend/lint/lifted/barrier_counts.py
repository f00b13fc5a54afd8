"""How many barriers of all threads of the CTA come before an instruction: at least, and at most.

Each thread counts the same barriers: none is past its n-th one before every thread that has not left is at its n-th.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nvbackend.isel.machine.function import MachineFunction
from nvbackend.lint.lifted.lift import Line
from nvbackend.ptx.syntax import Integer

_HEADS = ("bar", "barrier")
_QUALIFIERS = frozenset({"sync", "aligned", "cta"})


class BarrierCounts:
    """The counts of one function, by the positions of its instructions."""

    def __init__(self, function: MachineFunction, lines: Sequence[Line]) -> None:
        self._block: list[str] = []
        self._within: list[tuple[int, int]] = []
        own: dict[str, tuple[int, int]] = {}
        for block in function.blocks.values():
            least = most = 0
            for _ in block.instructions:
                self._block.append(block.name)
                self._within.append((least, most))
                line = lines[len(self._within) - 1]
                if _is_of_all(line):
                    least, most = least + (line.instruction.guard is None), most + 1
            own[block.name] = least, most
        self._function = function
        self._is_spoilt = any(_may_be_another(line) for line in lines)
        self._limit = sum(most for _, most in own.values())
        self._own_least = {name: least for name, (least, _) in own.items()}
        self._least = self._spread({function.entry.name: 0}, self._own_least, min)
        self._most = self._spread({function.entry.name: 0}, {name: most for name, (_, most) in own.items()}, max)
        self._after: dict[int, dict[str, int]] = {}

    def are_more(self, place: int, before: int) -> bool:
        """Whether each way to `place` has more of them than any way to `before`."""
        if self._is_spoilt:
            return False
        least = self._least.get(self._block[place])
        return least is not None and self._is_past(least + self._within[place][0], before)

    def are_more_through(self, first: int, place: int, before: int) -> bool:
        """Whether each way by `first` to `place` has more of them than any way to `before`."""
        own = self._block[first]
        if self._is_spoilt or own not in self._least:
            return False
        if first not in self._after:
            left = self._own_least[own] - self._within[first][0]
            starts = dict.fromkeys(self._function.blocks[own].successors, min(left, self._limit + 1))
            self._after[first] = self._spread(starts, self._own_least, min)
        at = self._after[first].get(self._block[place])
        ways = [] if at is None else [at + self._within[place][0]]
        if self._block[place] == own and place > first:
            ways.append(self._within[place][0] - self._within[first][0])
        return bool(ways) and self._is_past(self._least[own] + self._within[first][0] + min(ways), before)

    def _is_past(self, count: int, before: int) -> bool:
        """Whether a thread that has passed so many is past some that no way to `before` has."""
        most = self._most.get(self._block[before])
        return most is not None and most <= self._limit and count > most + self._within[before][1]

    def _spread(self, starts: dict[str, int], own: dict[str, int], choose: Callable[[int, int], int]) -> dict[str, int]:
        """The count where each block begins; more than there are barriers where a loop repeats them."""
        counts = dict(starts)
        waiting = list(starts)
        while waiting:
            name = waiting.pop()
            after = min(counts[name] + own[name], self._limit + 1)
            for successor in self._function.blocks[name].successors:
                known = counts.get(successor)
                chosen = after if known is None else choose(known, after)
                if chosen != known:
                    counts[successor] = chosen
                    waiting.append(successor)
        return counts


def _is_of_all(line: Line) -> bool:
    """Whether it is barrier 0 of all threads, at which each waits."""
    head, *qualifiers = line.instruction.parts
    operands = line.instruction.operands
    if head not in _HEADS or not {"sync"} <= set(qualifiers) <= _QUALIFIERS or len(operands) != 1:
        return False
    return isinstance(operands[0], Integer) and operands[0].value == 0


def _may_be_another(line: Line) -> bool:
    """Whether threads may arrive at barrier 0 in another way: some of them, or without a wait."""
    head, *qualifiers = line.instruction.parts
    if head not in _HEADS or _is_of_all(line) or {"warp", "cluster"} & set(qualifiers):
        return False
    number = line.instruction.operands[0] if line.instruction.operands else None
    return not (isinstance(number, Integer) and number.value)
