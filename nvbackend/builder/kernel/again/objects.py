"""What objects and modules hold."""

from __future__ import annotations

import contextlib
import functools
import struct
import types
from collections.abc import Iterable, Iterator

from nvbackend.builder.kernel.again.pure_names import PACKAGE

_Slot = types.MemberDescriptorType


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
