"""Which Python statement left a with-block before its end: `return`, `break` or `continue`, which raise nothing.

The source says where such statements are, and the frame which of the block's ends was reached: Python compiles one
call of `__exit__` for each of them and one for the end of the block. Where the two do not agree nothing is said.
"""

from __future__ import annotations

import ast
import dis
import functools
import linecache
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType

Exit = ast.Return | ast.Break | ast.Continue
_Position = tuple[int | None, int | None, int | None, int | None]
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_EXIT = re.compile(r"\b(return|break|continue)\b")
_SETUP = {"BEFORE_WITH", "LOAD_SPECIAL"}
"""The instructions that begin a with-block, in the versions of Python."""


@dataclass(frozen=True)
class _With:
    """A with-statement, the Python statements that can leave it, and the nodes around it, outermost first."""

    node: ast.With
    exits: tuple[Exit, ...]
    around: tuple[ast.AST, ...]
    calls: int
    """Calls of `__exit__` at each end that have this place: Python gives them the item's place or the statement's."""


def python_exit(frame: FrameType, *, loop: bool) -> Exit | None:
    """The statement by which `frame` leaves the with-block whose `__exit__` it calls, where that skips something.

    `loop` says that the block is a loop of the kernel: a `return` at its end skips the rounds that follow.
    """
    code = frame.f_code
    positions = list(code.co_positions())
    position = positions[frame.f_lasti // 2] if 0 <= frame.f_lasti // 2 < len(positions) else None
    found = None if position is None else _with_statements(code).get(position)
    if found is None or position is None:
        return None
    taken = _taken(found, _ends(code, position), frame.f_lasti)
    return taken if taken is not None and _skips(taken, found, loop) else None


def _taken(found: _With, ends: list[int], at: int) -> Exit | None:
    exits: tuple[Exit | None, ...] = found.exits
    if at not in ends:
        return None
    if not _leaves(found.node.body):
        exits = (*exits, None)
    elif len(ends) != len(exits) * found.calls:
        return found.exits[0]
    return exits[ends.index(at) // found.calls] if len(ends) == len(exits) * found.calls else None


def _ends(code: CodeType, position: _Position) -> list[int]:
    """The calls of `__exit__` without an exception, of the with-item at `position`, in the order of the source."""
    here = [one for one in dis.get_instructions(code) if one.positions is not None and tuple(one.positions) == position]
    begins = max((one.offset for one in here if one.opname in _SETUP), default=len(code.co_code))
    return [one.offset for one in here if one.offset > begins and one.opname == "CALL" and one.arg in (2, 3)]


@functools.lru_cache(maxsize=256)
def _with_statements(code: CodeType) -> dict[_Position, _With]:
    """The with-statements of the code's file that a Python statement can leave, by their places."""
    lines = linecache.getlines(code.co_filename)
    last = max((line for _, _, line in code.co_lines() if line is not None), default=0)
    if not any(map(_EXIT.search, lines[code.co_firstlineno - 1 : last + 1])):
        return {}
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError):
        return {}
    found: dict[_Position, _With] = {}
    for node, around in _nodes(tree, ()):
        if isinstance(node, ast.With) and (exits := tuple(_exits(node.body))):
            places: list[ast.expr | ast.stmt] = [node, *(item.context_expr for item in node.items)]
            for one in places:
                place = (one.lineno, one.end_lineno, one.col_offset, one.end_col_offset)
                found[place] = _With(node, exits, around, len(node.items) if one is node else 1)
    return found


def _nodes(node: ast.AST, around: tuple[ast.AST, ...]) -> Iterator[tuple[ast.AST, tuple[ast.AST, ...]]]:
    yield node, around
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            yield from _nodes(child, (*around, node))


def _exits(body: Sequence[ast.AST], *, in_loop: bool = False) -> Iterator[Exit]:
    """The statements that leave `body`, in order; of a loop in it, only `return` does."""
    for node in body:
        if isinstance(node, ast.Return) or (isinstance(node, (ast.Break, ast.Continue)) and not in_loop):
            yield node
        elif isinstance(node, _LOOPS):
            yield from _exits(node.body, in_loop=True)
            yield from _exits(node.orelse, in_loop=in_loop)
        elif not isinstance(node, _SCOPES):
            inside = ast.iter_child_nodes(node)
            yield from _exits([one for one in inside if not isinstance(one, ast.expr)], in_loop=in_loop)


def _leaves(body: Sequence[ast.stmt]) -> bool:
    """Whether the end of `body` is never reached."""
    return any(
        isinstance(node, (ast.Return, ast.Break, ast.Continue))
        or (isinstance(node, ast.With) and _leaves(node.body))
        or (isinstance(node, ast.If) and _leaves(node.body) and _leaves(node.orelse))
        for node in body
    )


def _skips(taken: Exit, found: _With, loop: bool) -> bool:
    """Whether something that belongs after the with-block is not run because of `taken`."""
    if isinstance(taken, ast.Break) or (loop and not (isinstance(taken, ast.Return) and taken.value is not None)):
        return True
    child: ast.AST = found.node
    for parent in reversed(found.around):
        if any(_counts(one, taken) for one in _following(parent, child)):
            return True
        if isinstance(parent, _SCOPES):
            return False
        if isinstance(parent, _LOOPS) and child in parent.body:
            return isinstance(taken, ast.Return)
        child = parent
    return False


def _following(parent: ast.AST, child: ast.AST) -> list[ast.stmt]:
    """What runs after `child` in the list of statements of `parent` that has it."""
    for name in ("body", "orelse", "finalbody"):
        statements = getattr(parent, name, None)
        if isinstance(statements, list) and child in statements:
            rest = statements[statements.index(child) + 1 :]
            return rest + parent.orelse if isinstance(parent, ast.Try) and name == "body" else rest
    return []


def _counts(statement: ast.stmt, taken: Exit) -> bool:
    """Whether skipping `statement` makes a difference."""
    if isinstance(taken, ast.Return) and taken.value is None and isinstance(statement, ast.Return):
        return statement.value is not None
    return not isinstance(statement, ast.Pass)
