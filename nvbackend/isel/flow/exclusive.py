"""Blocks of which threads never come to both: conditions on the ways to them exclude each other.

Only facts that do not change while a thread runs are looked at, and those that decide every way to a block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.isel.flow.finished import kept
from nvbackend.isel.flow.loops import loops_of
from nvbackend.isel.machine.agreement import Formula
from nvbackend.isel.machine.function import MachineFunction

_FACTS = 8
"""Blocks that more facts of both than these decide are not judged: each doubles the ways."""
_SCOPES = (Scope.CTA, Scope.WARPGROUP, Scope.WARP, Scope.THREAD)
Condition = tuple[Formula, bool]
"""A formula, and whether it holds or fails."""


@kept
def exclusions_of(function: MachineFunction) -> Exclusions:
    """What excludes each other in `function`, found once for each pair of blocks."""
    return Exclusions(function)


class Exclusions:
    """The blocks of one function that exclude each other."""

    def __init__(self, function: MachineFunction) -> None:
        self._function = function
        self._loops = loops_of(function)
        self._conditions: dict[str, Sequence[Condition]] = {}
        self._scopes: dict[tuple[str, str], Scope | None] = {}

    def scope(self, first: str, second: str) -> Scope | None:
        """The largest scope of threads of which never one comes to one block and any to the other; None for none."""
        pair = first, second
        if pair not in self._scopes:
            self._scopes[pair] = _excluded(self._deciding(first), self._deciding(second))
        return self._scopes[pair]

    def _deciding(self, block: str) -> Sequence[Condition]:
        """What holds for each thread that comes to the block."""
        if block not in self._conditions:
            self._conditions[block] = [*self._find(block)] if self._loops.is_reachable(block) else ()
        return self._conditions[block]

    def _find(self, block: str) -> Iterator[Condition]:
        below, above = block, self._loops.dominator(block)
        while above != below:
            branching = self._function.blocks[above]
            formula = None if branching.branch is None else branching.branch.formula
            if formula is not None and len(branching.successors) > 1 and self._loops.predecessors(below) == [above]:
                yield formula, below == branching.successors[0]
            below, above = above, self._loops.dominator(above)


def _excluded(first: Sequence[Condition], second: Sequence[Condition]) -> Scope | None:
    alike = {*first} & {*second}  # what both are under parts nobody
    first, second = ([each for each in conditions if each not in alike] for conditions in (first, second))
    common = _facts(first) & _facts(second)
    first, second = ([each for each in conditions if _facts([each]) & common] for conditions in (first, second))
    if max(len(_facts(first)), len(_facts(second))) > _FACTS:
        return None
    uniform = {fact.fact: fact.uniform for formula, _ in first for fact in formula.facts()}
    for scope in _SCOPES if common else ():
        shared = sorted(fact for fact in common if uniform[fact] >= scope)
        if _ways(first, shared).isdisjoint(_ways(second, shared)):
            return scope
    return None


def _facts(conditions: Sequence[Condition]) -> set[int]:
    return {fact.fact for formula, _ in conditions for fact in formula.facts()}


def _ways(conditions: Sequence[Condition], shared: Sequence[int]) -> set[tuple[bool, ...]]:
    """What the `shared` facts may be where all conditions are as they must."""
    facts = sorted(_facts(conditions))
    ways = set()
    for chosen in product((True, False), repeat=len(facts)):
        known = dict(zip(facts, chosen, strict=True))
        if all(formula.threads(known, 1) == (holds, not holds) for formula, holds in conditions):
            ways.add(tuple([known[fact] for fact in shared]))
    return ways
