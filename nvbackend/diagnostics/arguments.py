"""Which argument of a call was of the wrong kind, found out after the call went wrong inside.

A call that works costs nothing here: its arguments are compared with its annotations only once it has failed with an
exception of Python's own.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import reprlib
from collections.abc import Callable, Iterator, Mapping
from types import UnionType
from typing import Any

from nvbackend.diagnostics.diagnostic import Diagnostic
from nvbackend.diagnostics.rule import Rule

ARGUMENT = Rule(
    id="call.argument",
    message="{call}: {problem}",
    fix="call it as {signature}",
    why="The call would stop inside nvbackend, at a line that is not yours.",
    reference="Python Language Reference, calls; the annotations of nvbackend",
)


def wrong_arguments(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Diagnostic]:
    """What is wrong with the arguments of a call of `function`: their number and names, else each one's kind."""
    function = inspect.unwrap(function)
    signature = inspect.signature(function)
    name = _name(function, args)
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        return [_diagnose(name, str(error), signature)]
    found = []
    for parameter, argument in given.items():
        described = signature.parameters[parameter]
        if (
            parameter != "self"
            and described.kind not in _VARIADIC
            and not _fits(argument, described.annotation, function)
        ):
            shown = reprlib.repr(argument)
            problem = f"{parameter} is {shown}, a {type(argument).__name__}, and takes {described.annotation}"
            found.append(_diagnose(name, problem, signature))
    return found


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _name(function: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """What the user called: a method by the class of its object, a class by its own name."""
    if "." not in function.__qualname__ or not args:
        return function.__qualname__
    owner = type(args[0]).__name__
    return owner if function.__name__ == "__init__" else f"{owner}.{function.__name__}"


def _diagnose(name: str, problem: str, signature: inspect.Signature) -> Diagnostic:
    without_quotes = [one.replace(annotation=_Plain(one.annotation)) for one in signature.parameters.values()]
    shown = signature.replace(
        parameters=[one for one in without_quotes if one.name != "self"], return_annotation=inspect.Signature.empty
    )
    return ARGUMENT.diagnose(call=name, problem=problem, signature=f"{name}{shown}")


class _Plain:
    """An annotation that prints as it is written."""

    def __init__(self, text: object) -> None:
        self.text = str(text)

    def __repr__(self) -> str:
        return self.text


def _fits(argument: object, annotation: object, function: Callable[..., Any]) -> bool:
    """Whether `argument` may be what the annotation, a text, names; True for what can not be told."""
    if not isinstance(annotation, str):
        return True
    return any(_is(argument, name, function) for name in _names(ast.parse(annotation, mode="eval").body))


def _names(node: ast.expr) -> Iterator[str]:
    """The alternatives of a union by name; what stands in brackets is left out."""
    if isinstance(node, ast.BinOp):
        yield from _names(node.left)
        yield from _names(node.right)
    elif isinstance(node, ast.Subscript):
        yield from _names(node.value)
    else:
        yield ast.unparse(node)


def _is(argument: object, name: str, function: Callable[..., Any]) -> bool:
    if name == "None":
        return argument is None
    names = {one.__name__ for one in type(argument).__mro__}
    if name in names or (name == "float" and "int" in names):
        return True
    scope = getattr(function, "__globals__", {})
    known = scope.get(name, getattr(builtins, name, None))
    if isinstance(known, (type, UnionType)):
        return isinstance(argument, known)
    return known is not None or "." in name  # a form of typing or a dotted name: not told; a name unknown here: no
