"""Methods from texts: those that differ in the names of fields alone have one text.

Python compiles a text in 0.1 ms or more, and a compile in a fresh process asks for 75 of them. So the texts that the
package's own classes have are in a module, `prepared`, which Python keeps compiled; others are compiled at their first
use.
"""

from __future__ import annotations

import functools
from binascii import crc32
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import CellType, CodeType, FunctionType
from typing import Any

NO_FILE = "<string>"
"""The file of methods from texts, by the name that it has in dataclasses of Python."""


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
    method = f"({', '.join(outside)}):\n def {name}({', '.join(arguments)}): {'; '.join(body)}\n"
    code = method_code(method)
    closure = tuple([CellType(outside[each]) for each in code.co_freevars])
    return FunctionType(
        _renamed(code, dict(zip(numbered(len(fields)), fields, strict=True))), scope, name, None, closure
    )


@functools.cache
def method_code(text: str) -> CodeType:
    """The code of the method in a function, whose text this is but for `def` and its name."""
    from nvbackend.diagnostics.classes import prepared

    made: FunctionType | None = vars(prepared).get(prepared_name(text))
    if made:
        return _inside(made.__code__).replace(co_filename=NO_FILE)
    return _inside(_inside(compile(f"def make{text}", NO_FILE, "exec")))


def prepared_name(text: str) -> str:
    """What the function of a text is called in `prepared`."""
    return f"_make_{crc32(text.encode()):08x}"


def _inside(code: CodeType) -> CodeType:
    return next(each for each in code.co_consts if isinstance(each, CodeType))


def _renamed(code: CodeType, names: Mapping[str, str]) -> CodeType:
    """The code with other names."""
    return code.replace(
        co_varnames=tuple([names.get(each, each) for each in code.co_varnames]),
        co_names=tuple([names.get(each, each) for each in code.co_names]),
        co_consts=tuple([names.get(each, each) if type(each) is str else each for each in code.co_consts]),
    )
