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
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FrameType

from nvbackend.builder.scopes.python_flow import LOOPS, SCOPES, Exit, ways_out

_Position = tuple[int | None, int | None, int | None, int | None]
_EXIT = re.compile(r"\b(return|break|continue)\b")
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
    positions = list(code.co_positions())
    position = positions[frame.f_lasti // 2] if 0 <= frame.f_lasti // 2 < len(positions) else None
    found = None if position is None else _with_statements(code).get(position)
    if found is None or position is None:
        return None
    ends = _ends(code, position)
    if frame.f_lasti not in ends or len(ends) != len(found.ways):
        return None
    taken = found.ways[ends.index(frame.f_lasti)]
    return taken if taken is not None and _skips(taken, found, loop) else None


@functools.lru_cache(maxsize=256)
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
    ways = ways_out(tree)
    found: dict[_Position, _With] = {}
    for node, around in _nodes(tree, ()):
        if isinstance(node, ast.With) and node in ways:
            items = node.items
            found[_position(node)] = _With(node, around, ways[node].of_all(len(items)))
            for item in items:
                found[_position(item.context_expr)] = _With(node, around, ways[node].of_item(item is items[-1]))
    return found


def _position(node: ast.expr | ast.stmt) -> _Position:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def _nodes(node: ast.AST, around: tuple[ast.AST, ...]) -> Iterator[tuple[ast.AST, tuple[ast.AST, ...]]]:
    yield node, around
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            yield from _nodes(child, (*around, node))


def _skips(taken: Exit, found: _With, loop: bool) -> bool:
    """Whether something that belongs after the with-block is not run because of `taken`."""
    if isinstance(taken, ast.Break) or (loop and not _has_value(taken)):
        return True
    child: ast.AST = found.node
    for parent in reversed(found.around):
        if any(_counts(one, taken) for one in _following(parent, child)):
            return True
        if isinstance(parent, SCOPES):
            break
        if isinstance(parent, LOOPS) and child in parent.body:
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
    if isinstance(taken, ast.Return) and not _has_value(taken) and isinstance(statement, ast.Return):
        return _has_value(statement)
    return not isinstance(statement, ast.Pass)


def _has_value(statement: ast.stmt) -> bool:
    """Whether it returns anything: a bare `return` and `return None` do not."""
    if not isinstance(statement, ast.Return) or statement.value is None:
        return False
    return not (isinstance(statement.value, ast.Constant) and statement.value.value is None)
