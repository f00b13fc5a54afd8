"""Which Python statement left a with-block before its end: `return`, `break` or `continue`, which raise nothing.

The source says where such statements are, and the frame which of the block's ends was reached. CPython compiles a call
of `__exit__` for each statement that leaves a block and one for the block's end, none for code that it sees to be dead,
and from 3.12 on puts what only an exception leads to after everything else of the function. Where source and code do
not agree nothing is said.
"""

from __future__ import annotations

import ast
import dis
import functools
import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from enum import IntEnum
from types import CodeType, FrameType

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.diagnostics.classes.late_pattern import late_pattern
from nvbackend.diagnostics.location import source_lines

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
    by_node: dict[ast.With, WaysOut] = {}
    for scope in [tree, *(node for node in ast.walk(tree) if isinstance(node, SCOPES[:-1]))]:
        _Flow(by_node).body(scope.body, Reached.PLAINLY)
    return {node: ways for node, ways in by_node.items() if ways.exits and not _is_cut_short(node)}


def _is_cut_short(node: ast.With) -> bool:
    last = (statement for inner in ast.walk(node) if isinstance(inner, _TRIES) for statement in inner.finalbody)
    return any(isinstance(node, (*_EXITS, ast.Raise)) for statement in last for node in ast.walk(statement))


class _Flow:
    """A walk through a function's statements; each method is given how its place is reached and gives it of its end."""

    def __init__(self, ways: dict[ast.With, WaysOut]) -> None:
        self._ways = ways
        self._around: list[WaysOut | ast.AST] = []
        """The with-blocks and loops around, outermost first."""
        self._breaks: dict[ast.AST, Reached] = {}
        """How the `break` statements of each loop are reached."""

    def body(self, statements: Sequence[ast.stmt], reached: Reached) -> Reached:
        for statement in statements:
            if reached is not Reached.NEVER:
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
        test = node.test if isinstance(node, ast.While) else None
        known = bool(test.value) if isinstance(test, ast.Constant) else None
        self._around.append(node)
        self.body(node.body, Reached.NEVER if known is False else reached)
        self._around.pop()
        end = self.body(node.orelse, Reached.NEVER if known else reached)
        return max(end, self._breaks.get(node, Reached.NEVER))

    def _try(self, node: ast.Try | ast.TryStar, reached: Reached) -> Reached:
        ends = [self.body(node.orelse, self.body(node.body, reached))]
        ends += [self.body(handler.body, Reached.BY_EXCEPTION) for handler in node.handlers]
        return self.body(node.finalbody, max(ends))

    def _with(self, node: ast.With | ast.AsyncWith, reached: Reached) -> Reached:
        ways = WaysOut()
        self._around.append(ways)
        ways.end = self.body(node.body, reached)
        self._around.pop()
        if isinstance(node, ast.With):
            self._ways[node] = ways
        return max(ways.end, Reached.BY_EXCEPTION)


def _takes_all(case: ast.match_case) -> bool:
    return case.guard is None and isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None


Position = tuple[int | None, int | None, int | None, int | None]
"""The first and the last line, the first and the last column, as code objects have them."""
_EXIT = late_pattern(r"\b(return|break|continue)\b")
_SETUP = {"BEFORE_WITH", "LOAD_SPECIAL"}
"""The instructions that begin a with-block, in the versions of Python."""


@dataclass(frozen=True)
class _With:
    """A with-statement or one of its items: the nodes around it, outermost first, and the ways out of it."""

    node: ast.With
    around: tuple[ast.AST, ...]
    ways: tuple[Exit | None, ...]
    """What leaves the block by each call of `__exit__` at this place, in order; None is the block's end."""


def python_exit(frame: FrameType, *, loop: bool) -> Exit | None:
    """The statement by which `frame` leaves the with-block whose `__exit__` it calls, where that skips something.

    `loop` says that the block is a loop of the kernel: a `return` at its end skips the rounds that follow.
    """
    code = frame.f_code
    statements = _with_statements(code)
    if not statements:
        return None
    place = next(itertools.islice(code.co_positions(), frame.f_lasti // 2, None))
    with_ = statements.get(place)
    if with_ is None:
        return None
    ends = _ends(code, place)
    if frame.f_lasti not in ends or len(ends) != len(with_.ways):
        return None
    taken = with_.ways[ends.index(frame.f_lasti)]
    return taken if taken is not None and _skips(taken, with_, loop) else None


@functools.lru_cache(maxsize=256)
def _ends(code: CodeType, place: Position) -> list[int]:
    """The calls of `__exit__` without an exception, of the with-item at `place`, in the order of the source."""
    here = [
        instruction
        for instruction in dis.get_instructions(code)
        if instruction.positions is not None and tuple(instruction.positions) == place
    ]
    begins = max(
        (instruction.offset for instruction in here if instruction.opname in _SETUP), default=len(code.co_code)
    )
    return [
        instruction.offset
        for instruction in here
        if instruction.offset > begins and instruction.opname == "CALL" and instruction.arg in (2, 3)
    ]


@functools.lru_cache(maxsize=256)
def _with_statements(code: CodeType) -> dict[Position, _With]:
    """The with-statements of the code's file that a Python statement can leave, by their places."""
    lines = source_lines(code.co_filename)
    last = max((line for _, _, line in code.co_lines() if line is not None), default=0)
    if not any(map(_EXIT.search, lines[code.co_firstlineno - 1 : last + 1])):
        return {}
    return _with_statements_of("".join(lines))


@functools.lru_cache(maxsize=16)
def _with_statements_of(text: str) -> dict[Position, _With]:
    """Those of a file with this text: many functions of a file are kernels."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return {}
    ways = ways_out(tree)
    statements: dict[Position, _With] = {}
    for node, around in nodes(tree, ()):
        if isinstance(node, ast.With) and node in ways:
            items = node.items
            statements[position(node)] = _With(node, around, ways[node].of_all(len(items)))
            for item in items:
                statements[position(item.context_expr)] = _With(node, around, ways[node].of_item(item is items[-1]))
    return statements


def position(node: ast.expr | ast.stmt) -> Position:
    """Where Python's compiler says that it is."""
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def nodes(node: ast.AST, around: tuple[ast.AST, ...]) -> Iterator[tuple[ast.AST, tuple[ast.AST, ...]]]:
    """The statements in it, each with the nodes around it, outermost first."""
    yield node, around
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            yield from nodes(child, (*around, node))


def _skips(taken: Exit, statement: _With, loop: bool) -> bool:
    """Whether something that belongs after the with-block is not run because of `taken`."""
    if isinstance(taken, ast.Break) or (loop and not _has_value(taken)):
        return True
    child: ast.AST = statement.node
    for parent in reversed(statement.around):
        if any(_counts(node, taken) for node in following(parent, child)):
            return True
        if isinstance(parent, SCOPES):
            return False
        if isinstance(parent, LOOPS) and child in parent.body:
            return isinstance(taken, ast.Return)
        child = parent
    return False


def following(parent: ast.AST, child: ast.AST) -> list[ast.stmt]:
    """What runs after `child` in the list of statements of `parent` that has it."""
    for name in ("body", "orelse", "finalbody"):
        statements = getattr(parent, name, None)
        if isinstance(statements, list) and child in statements:
            rest = statements[statements.index(child) + 1 :]
            return rest + parent.orelse if isinstance(parent, ast.Try) and name == "body" else rest
    return []


def _counts(statement: ast.stmt, taken: Exit) -> bool:
    """Whether skipping `statement` makes a difference."""
    if isinstance(taken, ast.Return) and not _has_value(taken) and isinstance(statement, ast.Return):
        return _has_value(statement)
    return not isinstance(statement, ast.Pass)


def _has_value(statement: ast.stmt) -> bool:
    """Whether it returns anything: a bare `return` and `return None` do not."""
    if not isinstance(statement, ast.Return) or statement.value is None:
        return False
    return not (isinstance(statement.value, ast.Constant) and statement.value.value is None)
