"""Methods from texts: of those that differ in the names of fields alone, one text is compiled."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any


def numbered(count: int) -> list[str]:
    """What a text calls so many fields."""
    return [f"_{number}" for number in range(count)]


def compiled(
    scope: dict[str, Any],
    name: str,
    arguments: Iterable[str],
    body: Iterable[str],
    fields: Sequence[str],
    outside: Mapping[str, object],
) -> Callable[..., Any]:
    """The method `name`, whose body calls `fields` by their numbers, and `outside` by its names.

    It is as if it were written in the module whose names are `scope`.
    """
    lines = "\n  ".join([f" def {name}({', '.join(arguments)}):", *body])
    code = _code(f"def make({', '.join(outside)}):\n{lines}\n return {name}")
    names = dict(zip(numbered(len(fields)), fields, strict=True))
    make = FunctionType(_renamed(code, names), scope)
    method: Callable[..., Any] = make(**outside)
    return method


@functools.cache
def _code(text: str) -> CodeType:
    """The code of the function that is all of a text."""
    return next(each for each in compile(text, "<string>", "exec").co_consts if isinstance(each, CodeType))


def _renamed(code: CodeType, names: Mapping[str, str]) -> CodeType:
    """The code with other names, also in the functions inside it."""

    def other(part: Any) -> Any:
        if type(part) is CodeType:
            return _renamed(part, names)
        return names.get(part, part) if type(part) is str else part

    variables, attributes, constants = (
        tuple(map(other, parts)) for parts in (code.co_varnames, code.co_names, code.co_consts)
    )
    return code.replace(co_varnames=variables, co_names=attributes, co_consts=constants)
