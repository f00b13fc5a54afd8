"""In which rounds of which loops something happens, and what a person calls these loops."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import field
from functools import lru_cache

from nvbackend.diagnostics import Location
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.diagnostics.location import source_lines

_NO_LOOPS = ("fill", "drain", "feed", "producer", "consumers", "if_", "else_", "one_thread", "group", "elect")
"""Methods of the builder and of rings that a with-statement enters, and that are no loops."""


@dataclass(frozen=True, slots=True)
class Counter:
    """What a loop is called: its variable in LLVM, and where the user made it.

    `name` is that of its variable in LLVM, `place` its line, which of `several` loops of that line it is (`outer` are
    around it), and `given` the name that it was made with.
    """

    name: str
    place: Location | None = None
    outer: int = 0
    several: int = 1
    given: str = ""

    def spoken(self) -> str:
        """The user's name of its variable, else its line."""
        if self.place is None:
            return self.name or "the loop"
        variables = _variables(self.place.file, self.place.line, self.several)
        return variables[self.outer] if variables else self.given or f"the loop of line {self.place.line}"


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

    def is_earlier(self, other: When) -> bool:
        """Whether it happens in an earlier round than another, of the loops that are around both."""
        both = self._common(other)
        return self.numbers[:both] < other.numbers[:both]

    def is_later(self, other: When) -> bool:
        """Whether it happens in a later round than another, of the loops that are around both."""
        return other.is_earlier(self)

    def _common(self, other: When) -> int:
        both = min(len(self.names), len(other.names))
        return both if self.names[:both] == other.names[:both] else 0

    def spoken(self) -> str:
        """The rounds in words: "round 1 of tile, round 3 of step"; "" outside of loops."""
        said = zip(self.loops or map(Counter, self.names), self.numbers, strict=True)
        return ", ".join(f"round {number} of {loop.spoken()}" for loop, number in said)


@lru_cache(maxsize=64)
def _variables(file: str, line: int, several: int) -> list[str]:
    """The variables of so many loops that a with-statement enters at a line, in order; none where that is not clear."""
    try:
        tree = ast.parse("".join(source_lines(file)))
    except SyntaxError:
        return []
    headers = [
        node.items
        for node in ast.walk(tree)
        if isinstance(node, ast.With) and node.lineno <= line <= (node.items[-1].context_expr.end_lineno or 0)
    ]
    entered = [item for items in headers[-1:] for item in items]
    entered = [one for one in entered if _name(one.context_expr) not in _NO_LOOPS]
    here = [one for one in entered if one.context_expr.lineno <= line <= (one.context_expr.end_lineno or 0)]
    for items in (here, entered):
        ranges = [one for one in items if _is_range(one.context_expr)]
        loops = ranges if len(ranges) == several else items
        names = [one.optional_vars.id for one in loops if isinstance(one.optional_vars, ast.Name)]
        if len(names) == several:
            return names
    return []


def _is_range(made: ast.expr) -> bool:
    return _name(made) == "range"


def _name(made: ast.expr) -> str:
    """What is called, without whose it is."""
    called = made.func if isinstance(made, ast.Call) else None
    return str(getattr(called, "attr", getattr(called, "id", "")))
