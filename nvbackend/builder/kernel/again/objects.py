"""What objects and modules hold."""

from __future__ import annotations

import builtins
import contextlib
import functools
import struct
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from nvbackend.builder.kernel.again.pure_names import PACKAGE
from nvbackend.diagnostics.arguments import MARK

_Slot = types.MemberDescriptorType
ALIASES = types.GenericAlias, type(Callable[[], None])
"""What `list[int]` and `Callable[[int], int]` are."""
HEAP_TYPE = 1 << 9
"""Py_TPFLAGS_HEAPTYPE: the class was made by a class statement, or by a C module in the same way."""


def builtins_of(module: dict[str, Any]) -> dict[str, Any]:
    """Where names are sought that the globals `module` do not have."""
    outside = module.get("__builtins__", builtins)
    return vars(outside) if isinstance(outside, types.ModuleType) else outside


def is_boundary(function: types.FunctionType) -> bool:
    """Whether it is a wrapper of this package around what a user calls."""
    members, module = vars(function), function.__globals__.get("__name__")
    return MARK in members and "__wrapped__" in members and str(module).partition(".")[0] == PACKAGE


@functools.lru_cache(maxsize=256)
def slots_of(cls: type) -> tuple[_Slot, ...]:
    """The slots of objects of `cls`, which no class gets after it was made."""
    return tuple(member for base in cls.__mro__ for member in vars(base).values() if type(member) is _Slot)


def hides(cls: type, slots: int) -> bool:
    """Whether objects of `cls` hold more than their dictionary and slots: what a class of C keeps for itself."""
    pointers = slots + (cls.__dictoffset__ > 0) + (cls.__weakrefoffset__ > 0)
    return cls.__basicsize__ > object.__basicsize__ + pointers * struct.calcsize("P")


def attributes_of(value: object, slots: Iterable[_Slot]) -> Iterator[tuple[str, object]]:
    """What is in the object's dictionary and in its slots, by name."""
    with contextlib.suppress(AttributeError):
        yield from list(object.__getattribute__(value, "__dict__").items())
    for slot in slots:
        try:
            yield slot.__name__, slot.__get__(value, type(value))
        except AttributeError:
            yield slot.__name__, "not set"


def is_part(module: types.ModuleType, value: object) -> bool:
    """Whether one of our modules defines `value` itself, or imports it as a module: no program has set it."""
    if module.__name__.partition(".")[0] != PACKAGE:
        return False
    if isinstance(value, types.ModuleType):
        return value.__name__.partition(".")[0] == PACKAGE
    return isinstance(value, types.FunctionType | type) and value.__module__ == module.__name__
