"""How Python's statements use names, their attributes, and the entries of containers, as the source says."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from nvbackend.builder.scopes.python_exits import SCOPES
from nvbackend.diagnostics.classes.dataclass import dataclass

_BRANCHES = (ast.If, ast.While, ast.Try, ast.TryStar, ast.Match, ast.With, ast.AsyncWith, ast.AsyncFor)
"""Statements whose bodies may be left out, or have threads of their own."""
_TAKERS = {name: ["read"] for name in ("enumerate", "list", "reversed", "sum", "tuple", "zip")} | {"len": []}
"""Functions of Python: how they use the entries of a container."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """What a block assigns to: the name `base`, `base.attribute`, or `base[index]` (None for an index of run time)."""

    base: str
    text: str
    line: int
    attribute: str | None = None
    is_entry: bool = False
    index: Any = None
    reads_first: bool = False
    """Whether the block reads it before it assigns to it."""
    is_read_after: bool = True
    """Whether it is read after the block; else it is set for a next round alone."""
    alternates: bool = False
    """Whether it is set to what also a thing of the build may be in turns."""


def assigned(statements: Sequence[ast.stmt]) -> Iterator[Assigned]:
    """What statements assign to, those of functions in them left out."""
    for statement in statements:
        if isinstance(statement, SCOPES):
            continue
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                yield from bounds(target)
        if isinstance(statement, ast.AugAssign | ast.AnnAssign):
            yield from bounds(statement.target)
        for name in ("body", "orelse", "finalbody"):
            yield from assigned(getattr(statement, name, ()))


def bounds(target: ast.expr) -> Iterator[Assigned]:
    """What a target of an assignment binds."""
    match target:
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            for part in parts:
                yield from bounds(part)
        case ast.Name(id=name):
            yield Assigned(name, name, target.lineno)
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            yield Assigned(name, f"{name}.{attribute}", target.lineno, attribute)
        case ast.Subscript(value=ast.Name(id=name), slice=index):
            yield Assigned(name, ast.unparse(target), target.lineno, is_entry=True, index=_constant(index))
        case _:
            pass


def _constant(index: ast.expr) -> Any:
    try:
        return ast.literal_eval(index)
    except ValueError:
        return None


def first_use(statements: Sequence[ast.stmt], target: Assigned) -> str | None:
    """How the first of the statements that has it uses it: "read", "written", or "" where that is not certain."""
    for statement in statements:
        use = _use(statement, target)
        if use is not None:
            return use
    return None


def _use(statement: ast.stmt, target: Assigned) -> str | None:
    match statement:
        case ast.Assign(targets=written, value=value):
            parts: list[ast.AST] = [value, *written]
        case ast.AugAssign(target=written, value=value):
            if _of_expressions([written], target) == "written":
                return "read"  # and written
            parts = [value, written]
        case ast.For(target=written_by, iter=iterated, body=body):
            if target.is_entry and is_base(iterated, target):
                return "read"
            use = _of_expressions([iterated, written_by], target)
            return use if use is not None else first_use(body, target)
        case ast.If(test=head) | ast.While(test=head):
            parts = [head]
        case ast.With(items=items):
            parts = [item.context_expr for item in items]
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return "" if mentions(statement, target) else None
        case _ if isinstance(statement, _BRANCHES):
            parts = []
        case _:
            parts = list(ast.iter_child_nodes(statement))
    use = _of_expressions(parts, target)
    if use is None and isinstance(statement, _BRANCHES) and mentions(statement, target):
        return ""
    return use


def is_base(node: ast.AST, target: Assigned) -> bool:
    """Whether a node is the name that a target begins with."""
    return isinstance(node, ast.Name) and node.id == target.base


def mentions(node: ast.AST, target: Assigned) -> bool:
    """Whether the name is in the node."""
    return any(is_base(each, target) for each in ast.walk(node))


def _of_expressions(parts: Sequence[ast.AST], target: Assigned) -> str | None:
    for part in parts:
        uses = set(_uses(part, target))
        if uses:
            return next(use for use in ("", "read", "written") if use in uses)
    return None


def _uses(node: ast.AST, target: Assigned) -> Iterator[str]:
    """How an expression uses it, in no order."""
    if isinstance(node, ast.Lambda):
        uses: Sequence[str] | None = [""] if mentions(node, target) else []
    else:
        uses = (_uses_of_entry if target.is_entry else _uses_of_name)(node, target)
    if uses is not None:
        yield from uses
        return
    for child in ast.iter_child_nodes(node):
        yield from _uses(child, target)


def _uses_of_name(node: ast.AST, target: Assigned) -> Sequence[str] | None:
    """The uses of a name or an attribute by this node; None where its children say."""
    match node:
        case ast.Attribute(value=ast.Name(id=target.base), attr=attribute, ctx=context) if target.attribute is not None:
            return [_how(context)] if target.attribute == attribute else []
        case ast.Name(id=target.base, ctx=context):
            return [_how(context) if target.attribute is None else ""]
    return None


def _uses_of_entry(node: ast.AST, target: Assigned) -> Sequence[str] | None:
    """The same of an entry, which is read by its index, by one of the build, and by what takes all of the container."""
    match node:
        case ast.Subscript(value=ast.Name(id=target.base), slice=index, ctx=context):
            return _uses_by_index(_constant(index), context, target)
        case ast.Starred(value=ast.Name(id=target.base), ctx=ast.Load()):
            return ["read"]
        case ast.Call(func=ast.Name(id=name), args=arguments) if any(is_base(each, target) for each in arguments):
            return _TAKERS.get(name, [""])
        case ast.Name(id=target.base):
            return [""]
    return None


def _uses_by_index(key: Any, context: ast.expr_context, target: Assigned) -> list[str]:
    if key is None:
        return ["read" if isinstance(context, ast.Load) else ""]
    if key == target.index:
        return [_how(context)]
    return [""] if target.index is None else []


def _how(context: ast.expr_context) -> str:
    return "read" if isinstance(context, ast.Load) else "written"
