"""What annotations say, as they are written: the kinds of arguments that they allow, and whether one is of them."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import GenericAlias, UnionType
from typing import Any, get_args, get_origin

NUMPY, LLVMLITE = "numpy", "llvmlite."


def is_llvmlites(value: object) -> bool:
    """Whether it is an object of llvmlite."""
    return type(value).__module__.startswith(LLVMLITE)


def is_flag(value: object) -> bool:
    """Whether it is a bool, NumPy's too, or 0 or 1."""
    kind = type(value)
    return kind is bool or (kind is int and value in (0, 1)) or (kind.__module__ == NUMPY and "bool" in kind.__name__)


def alternatives(annotation: str, scope: Mapping[str, Any]) -> tuple[ast.expr, ...]:
    """What an annotation allows, one by one."""
    return _alternatives_in(annotation, _Scope(scope))


@lru_cache(4096)
def _alternatives_in(annotation: str, scope: _Scope) -> tuple[ast.expr, ...]:
    return tuple(
        alternative for node in _names(_parsed(annotation)) for alternative in _names(_spelled_out(node, scope.names))
    )


class _Scope:
    """The names of a module: the same as another where they are one dict."""

    __slots__ = ("names",)

    def __init__(self, names: Mapping[str, Any]) -> None:
        self.names = names

    def __hash__(self) -> int:
        return id(self.names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Scope) and self.names is other.names


@lru_cache(4096)
def _parsed(annotation: str) -> ast.expr:
    if annotation.isidentifier() and annotation != "None":
        return ast.Name(annotation)  # as most are: Python takes long to find out
    return ast.parse(annotation, mode="eval").body


def text(node: ast.expr) -> str:
    """A part of an annotation as Python writes it."""
    return node.id if type(node) is ast.Name else _unparsed(node)


@lru_cache(4096)
def _unparsed(node: ast.expr) -> str:
    if type(node) is ast.Constant and node.value is None:
        return "None"  # this, and nearly all others are names, which Python takes long to write
    return ast.unparse(node)


def _names(node: ast.expr) -> Iterator[ast.expr]:
    """The alternatives of a union."""
    if isinstance(node, ast.BinOp):
        yield from _names(node.left)
        yield from _names(node.right)
    else:
        yield node


def _spelled_out(node: ast.expr, scope: Mapping[str, Any]) -> ast.expr:
    """The annotation that an alias such as `Shape = tuple[int, int, int]`, or a string, means."""
    known = _known(text(node), scope) if isinstance(node, (ast.Name, ast.Attribute)) else None
    return _parsed(str(known)) if isinstance(known, (GenericAlias, str)) else node


def outer(node: ast.expr) -> ast.expr:
    """An annotation without its brackets."""
    return node.value if isinstance(node, ast.Subscript) else node


def fits(argument: object, name: str, scope: Mapping[str, Any]) -> bool:
    """Whether `argument` may be what `name` says; True where that is unknown."""
    if name in ("None", "bool"):
        return argument is None if name == "None" else is_flag(argument)
    kind: Any = type(argument)
    names = _class_names(kind)
    known = _known(name, scope)
    if (name in names and not isinstance(known, type)) or (name == "float" and "int" in names):
        return True
    if known is Any:  # a class since Python 3.11, that isinstance refuses
        return True
    if getattr(known, "_is_protocol", False):  # isinstance refuses most of these
        return all(hasattr(argument, member) for member in vars(known) if not member.startswith("_"))
    if isinstance(known, (type, UnionType)):
        return _is_of(argument, _classes(known))
    return known is not None or "." in name  # unknown: a form of typing, or a module that is not loaded


def _is_of(argument: object, classes: tuple[type, ...]) -> bool:
    try:
        return isinstance(argument, classes)
    except Exception:  # noqa: BLE001 (its own __class__ raises)
        return False


@lru_cache(1024)
def _class_names(kind: type) -> frozenset[str]:
    return frozenset(cls.__name__ for cls in kind.__mro__)


def _classes(known: Any) -> tuple[type, ...]:
    """The classes of a union, without their brackets: isinstance refuses brackets."""
    parts = get_args(known) if isinstance(known, UnionType) else (known,)
    return tuple(get_origin(part) or part for part in parts)


def _known(name: str, scope: Mapping[str, Any]) -> Any:
    """The object that a name, dotted or not, refers to where it was written; None where only type checkers know it."""
    first, *rest = name.split(".")
    known = scope.get(first, getattr(builtins, first, sys.modules.get(first)))
    for part in rest:
        known = getattr(known, part, None)
    return known
