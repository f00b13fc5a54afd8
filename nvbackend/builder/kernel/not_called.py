"""Statements of a kernel's function that name a call of the builder and do not make it: `k.barrier.sync`."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from nvbackend.builder.scopes import rules
from nvbackend.diagnostics import Diagnostic, Location, functions_in

_FUNCTIONS = 64
"""So many functions are remembered with their statements: one is built again and again."""
_CACHE = bytes([dis.opmap["CACHE"]])
_NAMED_ALONE = bytes([dis.opmap["LOAD_ATTR"], dis.opmap["POP_TOP"]])
"""An attribute that is asked for and dropped, as operations follow each other but for their caches."""


def not_called(function: Callable[..., Any], k: object) -> list[Diagnostic]:
    """call.not-called for each such statement, which Python runs without a word; of `function` and those that it wraps,
    whose first parameter is the builder `k`."""
    return [
        rules.NOT_CALLED.diagnose(at=Location(code.co_filename, line, code.co_name), call=f"k.{name}")
        for code in [each.__code__ for each in functions_in(function)]
        if code.co_argcount
        for name, line in _statements(code, code.co_varnames[0])
        if callable(_named(k, name))
    ]


def _named(k: object, name: str) -> object:
    """What the name is, without asking a property."""
    for part in name.split("."):
        k = inspect.getattr_static(k, part, None)
    return k


@lru_cache(maxsize=_FUNCTIONS)
def _statements(code: Any, owner: str) -> tuple[tuple[str, int], ...]:
    """Each statement that only names something of `owner`, without that, and its line."""
    return tuple(_found(code, owner))


def _found(code: Any, owner: str) -> Iterator[tuple[str, int]]:
    if _NAMED_ALONE not in code.co_code[::2].replace(_CACHE, b""):
        return  # most functions: to take the instructions apart takes a millisecond
    names: list[str] | None = None
    for each in dis.get_instructions(code):
        if each.opname.startswith(("LOAD_FAST", "LOAD_DEREF")):
            names = [] if each.argval == owner else None
        elif each.opname == "LOAD_ATTR" and names is not None:
            names.append(each.argval)
        else:
            place = each.positions
            if each.opname == "POP_TOP" and names and place is not None and place.lineno is not None:
                yield ".".join(names), place.lineno
            names = None
