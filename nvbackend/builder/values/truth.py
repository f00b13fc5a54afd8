"""What to write where Python asks a run-time value for its truth."""

from __future__ import annotations

import ast
from typing import NoReturn

from nvbackend.builder.scopes.rules import NO_TRUTH_VALUE
from nvbackend.diagnostics import caller_location

_IF = "`with k.if_(condition):`, or `k.select(condition, a, b)` where both may be computed"
_CHOICE = (
    "`k.select(condition, a, b)`, which computes both: of `x[i] if i < n else 0.0` it would load x[i] in every thread, "
    "also out of bounds; to compute only one, set a variable in `with k.if_(condition):`"
)
_WHILE = "`with k.loop():` and, in it, `k.break_if(condition)` with the condition that ends the loop"
_ASSERT = "`k.assert_(condition, text)`, which is checked when the kernel runs"
_CHAIN = "`(a < b) & (b < c)` instead of a < b < c"
_BINDS = "`(a < b) & (c < d)`, each comparison in parentheses: & and | bind before < and >"
_LOGIC = "`&`, `|` and `~` instead of and, or, not, with parentheses: `(a < b) & (c < d)`"
_AMONG = "`(a == b) | (a == c)` instead of a in (b, c)"
_EXTREMES = "`k.math.max` and `k.math.min` instead of max and min"
_ALL = (_IF, _WHILE, _LOGIC, _EXTREMES)
"""What helps if nothing in the line is known to ask."""


def refuse_truth() -> NoReturn:
    """Raises value.truth at the user's line, with what to write instead of what is there."""
    place = caller_location()
    NO_TRUTH_VALUE.fail(at=place, advice=f"use {'; '.join(_instead(place.source if place else ''))}")


def _instead(line: str) -> tuple[str, ...]:
    """What to use instead of each thing in a line of Python that asks for a truth value; all there is for others."""
    nodes = _nodes(line.removeprefix("el") if line.startswith("elif ") else line)
    return tuple(dict.fromkeys(advice for node in nodes if (advice := _advice(node)))) or _ALL


def _nodes(line: str) -> list[ast.AST]:
    """The syntax of a line, which may be the first one of a block; nothing for a part of a statement."""
    for text in (line, f"{line}\n pass"):
        try:
            return list(ast.walk(ast.parse(text)))
        except SyntaxError:
            continue
    return []


def _advice(node: ast.AST) -> str:
    if isinstance(node, ast.Call):
        return _EXTREMES if isinstance(node.func, ast.Name) and node.func.id in ("max", "min") else ""
    if isinstance(node, ast.Compare):
        is_among = any(isinstance(operator, (ast.In, ast.NotIn)) for operator in node.ops)
        return _AMONG if is_among else _of_chain(node) if len(node.ops) > 1 else ""
    return _FORMS.get(type(node), "")


def _of_chain(node: ast.Compare) -> str:
    inner = node.comparators[:-1]  # where `a < b & c < d` has its &
    is_logic = any(isinstance(each, ast.BinOp) and isinstance(each.op, (ast.BitAnd, ast.BitOr)) for each in inner)
    return _BINDS if is_logic else _CHAIN


_FORMS: dict[type[ast.AST], str] = {
    ast.If: _IF,
    ast.IfExp: _CHOICE,
    ast.While: _WHILE,
    ast.Assert: _ASSERT,
    **dict.fromkeys((ast.BoolOp, ast.Not), _LOGIC),
}
