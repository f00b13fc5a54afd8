"""Methods from texts: of those that differ in the names of fields alone, one text is compiled."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import CellType, CodeType, FunctionType
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
    code = _code(f"def make({', '.join(outside)}):\n{lines}")
    closure = tuple([CellType(outside[each]) for each in code.co_freevars])
    return FunctionType(
        _renamed(code, dict(zip(numbered(len(fields)), fields, strict=True))), scope, name, None, closure
    )


@functools.cache
def _code(text: str) -> CodeType:
    """The code of the method in the function that is all of a text."""
    return _inside(_inside(compile(text, "<string>", "exec")))


def _inside(code: CodeType) -> CodeType:
    return next(each for each in code.co_consts if isinstance(each, CodeType))


def _renamed(code: CodeType, names: Mapping[str, str]) -> CodeType:
    """The code with other names."""
    return code.replace(
        co_varnames=tuple([names.get(each, each) for each in code.co_varnames]),
        co_names=tuple([names.get(each, each) for each in code.co_names]),
        co_consts=tuple([names.get(each, each) if type(each) is str else each for each in code.co_consts]),
    )
