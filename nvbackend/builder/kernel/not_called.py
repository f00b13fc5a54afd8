"""Statements of a kernel that name a call of the builder and do not make it: `k.barrier.sync`, `with k.else_:`."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from nvbackend.builder.scopes import rules
from nvbackend.diagnostics import Diagnostic, Location, functions_in
from nvbackend.diagnostics.classes.late_pattern import late_pattern

_FUNCTIONS = 64
"""So many functions are remembered with their statements: one is built again and again."""
_OPENED = late_pattern(r"\bwith\b.*?\b(\w+)((?:\.\w+)+)\s*(?=[:,]|as\b)")
"""A with statement whose block is named and not called: the builder, and the call."""
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


def block_not_called(error: TypeError, place: Location) -> Diagnostic | None:
    """call.not-called for a with statement that has no parentheses after a block's name; None for any other error."""
    opened = _OPENED.search(place.source) if "context manager" in str(error) else None
    trace = error.__traceback__
    if opened is None or trace is None:
        return None
    while trace.tb_next is not None:
        trace = trace.tb_next
    owner = trace.tb_frame.f_locals.get(opened[1])
    is_ours = type(owner).__module__.startswith(f"{__name__.partition('.')[0]}.")
    if not is_ours or not callable(_named(owner, opened[2].removeprefix("."))):
        return None
    return rules.NOT_CALLED.diagnose(at=place, call=f"{opened[1]}{opened[2]}")


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
