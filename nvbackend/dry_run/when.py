"""In which rounds of which loops something happens, and what a person calls these loops."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from nvbackend.diagnostics import Location


@dataclass(frozen=True, slots=True)
class Counter:
    """What a loop is called: its variable in LLVM, its line, and how many loops of that line are around it."""

    name: str
    place: Location | None = None
    outer: int = 0

    def spoken(self) -> str:
        """The user's name of its variable, else its line."""
        if self.place is None:
            return self.name or "the loop"
        variables = _variables(self.place.file, self.place.line)
        return variables[self.outer] if self.outer < len(variables) else f"the loop of line {self.place.line}"


@dataclass(slots=True, unsafe_hash=True)
class When:
    """The rounds of the loops around a step, from the outside, and the names of these loops' variables in LLVM.

    Rounds count from 0. Loops whose variables have the same names are alike, such as those of two warps.
    """

    names: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()
    loops: Sequence[Counter] = field(default=(), compare=False)

    def __bool__(self) -> bool:
        return bool(self.names)

    def spoken(self) -> str:
        """The rounds in words: "round 1 of tile, round 3 of step"; "" outside of loops."""
        said = zip(self.loops or map(Counter, self.names), self.numbers, strict=True)
        return ", ".join(f"round {number} of {loop.spoken()}" for loop, number in said)


@lru_cache(maxsize=64)
def _variables(file: str, line: int) -> list[str]:
    """The variables of the ranges that a with-statement enters at a line, in order; none where one has no name."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return []
    headers = [
        node.items
        for node in ast.walk(tree)
        if isinstance(node, ast.With) and node.lineno <= line <= (node.items[-1].context_expr.end_lineno or 0)
    ]
    ranges = [item for items in headers[-1:] for item in items if _is_range(item.context_expr)]
    here = [one for one in ranges if one.context_expr.lineno <= line <= (one.context_expr.end_lineno or 0)]
    found = [one.optional_vars for one in here or ranges]
    names = [one.id for one in found if isinstance(one, ast.Name)]
    return names if len(names) == len(found) else []


def _is_range(made: ast.expr) -> bool:
    called = made.func if isinstance(made, ast.Call) else None
    return getattr(called, "attr", getattr(called, "id", "")) == "range"
