"""Conditions of branches as formulas over facts: what a thread finds alike each time that it comes to one of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import Scope

Sides = tuple[int, int]
"""The threads of the CTA for which something certainly holds, and for which it certainly does not, a bit each."""


@dataclass(frozen=True, slots=True)
class Formula:
    """A fact by its number, or several `parts`, of which every one holds or any one; `negated`, the opposite of that.

    Equal numbers are equal facts in one function, whichever branches they are in and however often these are executed.
    All threads of one `uniform` scope find a fact alike; `sides` are there where their indices alone decide it.
    """

    fact: int = -1
    parts: tuple[Formula, ...] = ()
    every: bool = True
    negated: bool = False
    uniform: Scope = Scope.THREAD
    sides: Sides | None = None

    def facts(self) -> Iterator[Formula]:
        """The facts that decide it."""
        if not self.parts:
            yield self
        for part in self.parts:
            yield from part.facts()

    def is_by_index(self, known: Mapping[int, bool]) -> bool:
        """Whether nothing but the indices of threads decides it where these facts are `known`."""
        return all(fact.fact in known or fact.sides is not None for fact in self.facts())

    def threads(self, known: Mapping[int, bool], everyone: int) -> Sides:
        """The threads among `everyone` for which it holds, and for which it does not, where these facts are `known`."""
        if self.parts:
            holds, fails = self._combined(known, everyone)
        elif self.fact in known:
            holds, fails = (everyone, 0) if known[self.fact] else (0, everyone)
        else:
            holds, fails = self.sides or (0, 0)
        return (fails, holds) if self.negated else (holds, fails)

    def _combined(self, known: Mapping[int, bool], everyone: int) -> Sides:
        """The sides of the parts together: those that hold or fail in all parts, and those that do in one."""
        together, alone = everyone, 0
        for part in self.parts:
            holds, fails = part.threads(known, everyone)
            together &= holds if self.every else fails
            alone |= fails if self.every else holds
        return (together, alone) if self.every else (alone, together)
