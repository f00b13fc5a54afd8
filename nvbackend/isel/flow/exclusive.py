"""Blocks of which threads never come to both: conditions on the ways to them exclude each other.

Only facts that do not change while a thread runs are looked at, and those that decide every way to a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.isel.flow.finished import kept
from nvbackend.isel.flow.loops import loops_of
from nvbackend.isel.flow.paths import reachable
from nvbackend.isel.machine.agreement import Formula
from nvbackend.isel.machine.function import MachineFunction

_FACTS = 8
"""Blocks that more facts than these decide are not judged: each doubles the ways."""
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
            self._conditions[block] = self._find(block) if self._loops.is_reachable(block) else ()
        return self._conditions[block]

    def _find(self, block: str) -> Sequence[Condition]:
        above = self._loops.dominator(block)
        if above == block:
            return ()
        branching = self._function.blocks[above]
        formula = None if branching.branch is None else branching.branch.formula
        leading = [block in reachable(self._function, [each], without=(above,)) for each in branching.successors]
        is_decided = formula is not None and leading.count(True) == 1 < len(leading)
        return (*self._deciding(above), *([(formula, leading[0])] if formula is not None and is_decided else ()))


def _excluded(first: Sequence[Condition], second: Sequence[Condition]) -> Scope | None:
    uniform = {fact.fact: fact.uniform for formula, _ in (*first, *second) for fact in formula.facts()}
    common = _facts(first) & _facts(second)
    if max(len(_facts(first)), len(_facts(second))) > _FACTS:
        return None
    for scope in _SCOPES:
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
