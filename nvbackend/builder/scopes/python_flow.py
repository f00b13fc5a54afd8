"""The ways out of each with-block of a Python program, in the order in which Python compiles them.

CPython compiles a call of `__exit__` for each statement that leaves a block and one for the block's end, none for code
that it sees to be dead, and from 3.12 on puts what only an exception leads to after everything else of the function.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

Exit = ast.Return | ast.Break | ast.Continue
LOOPS = (ast.For, ast.AsyncFor, ast.While)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_EXITS = (ast.Return, ast.Break, ast.Continue)
_TRIES = (ast.Try, ast.TryStar)
MOVES_COLD_CODE = sys.version_info >= (3, 12)


class Reached(IntEnum):
    """How control comes to a place, as far as Python's compiler sees."""

    NEVER = 0
    BY_EXCEPTION = 1
    PLAINLY = 2


_Way = tuple[Exit | None, Reached]


@dataclass
class WaysOut:
    """What leaves a with-block: statements in the order of the source, and how its end is reached."""

    exits: list[tuple[Exit, Reached]] = field(default_factory=list)
    end: Reached = Reached.NEVER

    def of_item(self, last: bool) -> tuple[Exit | None, ...]:
        """What leaves the block of one with-item by each of its calls of `__exit__`; None is the block's end."""
        return _compiled([*self.exits, *self._ends(1, last)])

    def of_all(self, items: int) -> tuple[Exit | None, ...]:
        """The same for all the items of a statement, whose calls have the statement's place up to Python 3.12."""
        return _compiled([*(way for way in self.exits for _ in range(items)), *self._ends(items, True)])

    def _ends(self, items: int, with_last: bool) -> Iterable[_Way]:
        # The last item could end an exception, and with that the blocks of the other items come to their ends.
        outer = max(self.end, Reached.BY_EXCEPTION)
        yield from ((None, outer) for _ in range(items - with_last))
        if with_last and self.end is not Reached.NEVER:
            yield None, self.end


def _compiled(ways: Sequence[_Way]) -> tuple[Exit | None, ...]:
    ordered = sorted(ways, key=lambda way: -way[1]) if MOVES_COLD_CODE else ways
    return tuple(statement for statement, _ in ordered)


def ways_out(tree: ast.Module) -> dict[ast.With, WaysOut]:
    """The ways out of each with-block of `tree` that a `return`, `break` or `continue` leaves.

    Left out where a `finally` in the block leaves it too: what led there never comes to the end of the with-block.
    """
    found: dict[ast.With, WaysOut] = {}
    for scope in [tree, *(node for node in ast.walk(tree) if isinstance(node, SCOPES[:-1]))]:
        _Flow(found).body(scope.body, Reached.PLAINLY)
    return {node: ways for node, ways in found.items() if ways.exits and not _is_cut_short(node)}


def _is_cut_short(node: ast.With) -> bool:
    last = (one for inner in ast.walk(node) if isinstance(inner, _TRIES) for one in inner.finalbody)
    return any(isinstance(one, (*_EXITS, ast.Raise)) for statement in last for one in ast.walk(statement))


class _Flow:
    """A walk through a function's statements; each method is given how its place is reached and gives it of its end."""

    def __init__(self, found: dict[ast.With, WaysOut]) -> None:
        self._found = found
        self._around: list[WaysOut | ast.AST] = []
        """The with-blocks and loops around, outermost first."""
        self._breaks: dict[ast.AST, Reached] = {}
        """How the `break` statements of each loop are reached."""

    def body(self, statements: Sequence[ast.stmt], reached: Reached) -> Reached:
        for statement in statements:
            if reached is Reached.NEVER:
                break
            reached = self._statement(statement, reached)
        return reached

    def _statement(self, node: ast.stmt, reached: Reached) -> Reached:
        match node:
            case ast.Return() | ast.Break() | ast.Continue():
                end = self._exit(node, reached)
            case ast.Raise():
                end = Reached.NEVER
            case ast.If():
                end = self._if(node, reached)
            case ast.For() | ast.AsyncFor() | ast.While():
                end = self._loop(node, reached)
            case ast.Try() | ast.TryStar():
                end = self._try(node, reached)
            case ast.With() | ast.AsyncWith():
                end = self._with(node, reached)
            case ast.Match():
                ends = [self.body(case.body, reached) for case in node.cases]
                end = max(ends if _takes_all(node.cases[-1]) else [*ends, reached])
            case _:
                end = reached
        return end

    def _exit(self, node: Exit, reached: Reached) -> Reached:
        for around in reversed(self._around):
            if isinstance(around, WaysOut):
                around.exits.append((node, reached))
            elif not isinstance(node, ast.Return):
                if isinstance(node, ast.Break):
                    self._breaks[around] = max(reached, self._breaks.get(around, Reached.NEVER))
                break
        return Reached.NEVER

    def _if(self, node: ast.If, reached: Reached) -> Reached:
        if isinstance(node.test, ast.Constant):
            return self.body(node.body if node.test.value else node.orelse, reached)
        return max(self.body(node.body, reached), self.body(node.orelse, reached))

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, reached: Reached) -> Reached:
        self._around.append(node)
        self.body(node.body, reached)
        self._around.pop()
        endless = isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and bool(node.test.value)
        end = self.body(node.orelse, Reached.NEVER if endless else reached)
        return max(end, self._breaks.get(node, Reached.NEVER))

    def _try(self, node: ast.Try | ast.TryStar, reached: Reached) -> Reached:
        ends = [self.body(node.orelse, self.body(node.body, reached))]
        ends += [self.body(handler.body, Reached.BY_EXCEPTION) for handler in node.handlers]
        return min(max(ends), self.body(node.finalbody, max(ends)))

    def _with(self, node: ast.With | ast.AsyncWith, reached: Reached) -> Reached:
        ways = WaysOut()
        self._around.append(ways)
        ways.end = self.body(node.body, reached)
        self._around.pop()
        if isinstance(node, ast.With):
            self._found[node] = ways
        return max(ways.end, Reached.BY_EXCEPTION)


def _takes_all(case: ast.match_case) -> bool:
    return case.guard is None and isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None
