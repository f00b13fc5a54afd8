"""Natural loops of a machine function: which blocks repeat together, and which of them run in every round."""

from __future__ import annotations

from collections.abc import Mapping

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.isel.flow.dataflow import reverse_postorder
from nvbackend.isel.flow.finished import kept
from nvbackend.isel.flow.graphs import immediate_dominators
from nvbackend.isel.machine.function import MachineFunction, Update


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop: its header, the blocks that go back to it, and all its blocks."""

    header: str
    latches: frozenset[str]
    blocks: frozenset[str]


@kept
def loops_of(function: MachineFunction) -> Loops:
    """The loops of `function`, found once."""
    return Loops(function)


class Loops:
    """The loops of `function`. `regular` is False where a cycle has more than one way in: nothing is known of it."""

    def __init__(self, function: MachineFunction) -> None:
        self._blocks = function.blocks
        self._order = reverse_postorder(function) if function.blocks else []
        self._rank = {block: index for index, block in enumerate(self._order)}
        self._before = self._find_predecessors()
        self._dominator = immediate_dominators(self._order, self._before.__getitem__)
        self.regular = True
        self._innermost: dict[str, Loop] = {}
        self._outermost: dict[str, str] = {}
        self._even: dict[tuple[str, Scope], bool] = {}
        for loop in sorted(self._find(), key=lambda inner: -len(inner.blocks)):
            self._innermost.update(dict.fromkeys(loop.blocks, loop))
            for block in loop.blocks:
                self._outermost.setdefault(block, loop.header)

    def innermost(self, block: str) -> Loop | None:
        """The smallest loop around `block`."""
        return self._innermost.get(block)

    def around(self, block: str) -> list[Loop]:
        """The loops around `block`, the smallest first."""
        inner = self._innermost.get(block)
        if inner is None:
            return []
        loops = {loop.header: loop for loop in self._innermost.values() if inner.blocks <= loop.blocks}
        return sorted(loops.values(), key=lambda loop: len(loop.blocks))

    def goes_on(self, block: str, other: str) -> bool:
        """Whether a way from `block` to `other`, which follows it, may come back: some loop is around both."""
        around = self._outermost.get(block)
        return around is not None and around == self._outermost.get(other)

    def every_round(self, loop: Loop, block: str) -> bool:
        """Whether each round of `loop` that another round follows runs `block`."""
        return all(self.dominates(block, latch) for latch in loop.latches)

    def is_even(self, block: str, scope: Scope) -> bool:
        """Whether all threads of the `scope` that come to `block` run as many rounds of each loop around it."""
        inner = self._innermost.get(block)
        if inner is None:
            return True
        key = inner.header, scope
        if key not in self._even:
            self._even[key] = all(self._is_left_evenly(loop, scope) for loop in self.around(block))
        return self._even[key]

    def _is_left_evenly(self, loop: Loop, scope: Scope) -> bool:
        blocks = (self._blocks[name] for name in loop.blocks)
        leaving = [block for block in blocks if not loop.blocks.issuperset(block.successors)]
        return all(block.branch is not None and block.branch.uniform >= scope for block in leaving)

    def dominates(self, block: str, other: str) -> bool:
        """Whether every way to `other` leads through `block`; no where either is out of reach."""
        if block not in self._rank or other not in self._rank:
            return False
        while self._rank[other] > self._rank[block]:
            other = self._dominator[other]
        return other == block

    def dominator(self, block: str) -> str:
        """The nearest other block on every way to `block`; the entry's is itself."""
        return self._dominator[block]

    def predecessors(self, block: str) -> list[str]:
        """The blocks that `block`, which can be reached, may follow."""
        return self._before[block]

    def is_reachable(self, block: str) -> bool:
        """Whether some way from the entry leads to `block`."""
        return block in self._rank

    def is_entered_from(self, block: str, before: str) -> bool:
        """Whether every way that comes to `block` for the first time comes straight from `before`."""
        others = (predecessor for predecessor in self._before[block] if predecessor != before)
        return not self.dominates(block, before) and all(self.dominates(block, other) for other in others)

    def updates(self, loop: Loop) -> dict[str, Update]:
        """The variables that `loop` changes, and how; those that several blocks change count as set."""
        updates: dict[str, Update] = {}
        for name in sorted(loop.blocks):
            for variable, update in self._blocks[name].updates.items():
                updates[variable] = Update.SET if variable in updates else update
        return updates

    def _find_predecessors(self) -> Mapping[str, list[str]]:
        before: dict[str, list[str]] = {block: [] for block in self._order}
        for block in self._order:
            for successor in self._blocks[block].successors:
                before[successor].append(block)
        return before

    def _find(self) -> list[Loop]:
        latches: dict[str, set[str]] = {}
        for block in self._order:
            for successor in self._blocks[block].successors:
                if self._rank[successor] <= self._rank[block]:
                    if self.dominates(successor, block):
                        latches.setdefault(successor, set()).add(block)
                    else:
                        self.regular = False
        return [Loop(header, frozenset(ends), self._body(header, ends)) for header, ends in latches.items()]

    def _body(self, header: str, latches: set[str]) -> frozenset[str]:
        body, waiting = {header}, sorted(latches)
        while waiting:
            block = waiting.pop()
            if block not in body:
                body.add(block)
                waiting += self._before[block]
        return frozenset(body)
