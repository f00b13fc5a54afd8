"""What a loop's body sets for a next round alone: it reads it first, sets it, and nothing reads it after that.

Python runs the body once, so no round sees what another one has set: the assignment does nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from nvbackend.builder.scopes.name_uses import Assigned, assigned, bounds, first_use, is_base, mentions
from nvbackend.builder.scopes.python_exits import SCOPES

_Assignment = ast.Assign | ast.AugAssign | ast.AnnAssign
_Place = tuple[int, int]
_ALTERNATES = (ast.BitXor, ast.Mod)
"""Operators by which a number of the build goes from round to round."""


def carried(node: ast.With, around: Sequence[ast.AST]) -> Iterator[Assigned]:
    """What the body of a with-statement sets so."""
    scope = next((each for each in reversed(around) if isinstance(each, SCOPES)), None)
    if scope is None or any(map(_is_repeated, around)):
        return
    every = [target.text for target in assigned(node.body)]
    spans = _spans(node) if every else {}
    for statement, before in _assignments(node.body, []):
        for target in _targets(statement):
            first, last = spans.get(target.base, (_end(node), _end(node)))
            if not first < (statement.lineno, statement.col_offset) or last >= _end(statement):
                continue  # most names: to follow their uses takes long
            is_last = statement is node.body[-1]
            is_set_once = is_last or every.count(target.text) == 1
            if (
                is_set_once
                and first_use(before, target) == "read"
                and not _is_used_later(target, statement, node, scope)
            ):
                changed = _is_exchange(statement) or _alternates(statement)
                yield replace(target, reads_first=True, is_read_after=False, alternates=changed)


def _spans(node: ast.With) -> dict[str, tuple[_Place, _Place]]:
    """Of each name that the body reads: where it does first, and where it has the name last."""
    first: dict[str, _Place] = {}
    last: dict[str, _Place] = {}
    for each in (name for statement in node.body for name in ast.walk(statement) if isinstance(name, ast.Name)):
        place = each.lineno, each.col_offset
        last[each.id] = max(last.get(each.id, place), place)
        if isinstance(each.ctx, ast.Load):
            first[each.id] = min(first.get(each.id, place), place)
    return {name: (place, last[name]) for name, place in first.items()}


def _is_repeated(node: ast.AST) -> bool:
    """Whether Python may come to what is in it again."""
    return isinstance(node, (ast.For, ast.AsyncFor, ast.While))


def _assignments(
    statements: Sequence[ast.stmt], before: list[ast.stmt]
) -> Iterator[tuple[_Assignment, Sequence[ast.stmt]]]:
    """Those of the statements, and of the with-blocks among them, with what comes before each."""
    for statement in statements:
        if isinstance(statement, _Assignment):
            yield statement, before
        elif isinstance(statement, ast.With):
            heads: list[ast.stmt] = [ast.Expr(item.context_expr) for item in statement.items]
            yield from _assignments(statement.body, [*before, *heads])
        before = [*before, statement]


def _targets(statement: _Assignment) -> Iterator[Assigned]:
    for written in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
        yield from (each for each in bounds(written) if not each.is_entry or each.index is not None)


def _is_used_later(target: Assigned, statement: _Assignment, node: ast.With, scope: ast.stmt | ast.expr) -> bool:
    """Whether something may read it after the statement: of a name anywhere in the function, else in the block."""
    is_name = target.attribute is None and not target.is_entry
    after, until = _end(statement), _end(scope if is_name else node)
    for each in ast.walk(scope):
        if isinstance(each, (ast.Nonlocal, ast.Global)) and target.base in each.names:
            return True
        if isinstance(each, (*SCOPES, ast.Lambda)) and each is not scope and mentions(each, target):
            return True
        if isinstance(each, ast.Name) and is_base(each, target) and after <= (each.lineno, each.col_offset) < until:
            return True
    return False


def _end(node: ast.stmt | ast.expr) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or 0


def _is_exchange(statement: _Assignment) -> bool:
    """Whether it only gives names the things of one another: `a, b = b, a`."""
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=written)], value=ast.Tuple(elts=read)):
            names = [each.id for each in (*written, *read) if isinstance(each, ast.Name)]
            half = len(written)
            return len(names) == 2 * half and sorted(names[:half]) == sorted(names[half:])
    return False


def _alternates(statement: _Assignment) -> bool:
    """Whether it makes another number of the build of one: `phase ^= 1`, `stage = (stage + 1) % 4`, `odd = not odd`."""
    value = statement.value
    if isinstance(statement, ast.AugAssign):
        return isinstance(statement.op, _ALTERNATES)
    match value:
        case ast.BinOp(op=operator) if isinstance(operator, _ALTERNATES):
            return True
        case ast.BinOp(op=ast.Sub(), left=ast.Constant(), right=ast.Name()) | ast.UnaryOp(op=ast.Not()):
            return True
    return False
