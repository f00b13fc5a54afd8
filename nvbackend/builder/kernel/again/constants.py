"""Values that nothing changes: Python's own, and frozen records of this package."""

from __future__ import annotations

import dataclasses
import enum
import functools
import struct
import sys
import types
from collections.abc import Hashable
from typing import Any

from nvbackend.builder.kernel.again.pure_names import PACKAGE as PACKAGE  # noqa: PLC0414
from nvbackend.builder.kernel.again.pure_names import is_trusted

ATOMS: frozenset[type] = frozenset(
    {int, str, bytes, bool, types.NoneType, types.EllipsisType, types.NotImplementedType}
)


def is_trusted_class(cls: type) -> bool:
    """Whether its module is trusted and has it by its name: `make_dataclass` makes classes "of" `types`."""
    return is_trusted(cls.__module__) and _is_found(cls)


@functools.lru_cache(maxsize=512)
def _is_found(cls: type) -> bool:
    place: Any = sys.modules.get(cls.__module__)
    for part in cls.__qualname__.split("."):
        place = getattr(place, part, None)
    return place is cls


@functools.lru_cache(maxsize=256)
def is_ours(cls: type) -> bool:
    """Whether the class and all its bases belong to this package, so that it does not change."""
    return all(
        base is object or (is_trusted_class(base) and base.__module__.partition(".")[0] == PACKAGE)
        for base in cls.__mro__
    )


@functools.lru_cache(maxsize=256)
def may_be_constant(cls: Hashable) -> bool:
    """Whether objects of the class are records of ours that nothing changes, if nothing changes what they hold."""
    kind: Any = cls
    return is_ours(kind) and hasattr(kind, _RECORD) and getattr(kind, _RECORD).frozen


_RECORD = "__dataclass_params__"


def bits_of(value: float | complex) -> bytes:
    """What makes two numbers the same: 0.0 and -0.0 compare equal, and a NaN has a sign and does not equal itself."""
    return struct.pack("<dd", value.real, value.imag)


def is_constant(value: Any) -> bool:
    """Whether nothing changes `value`, nor anything that it holds."""
    kind: Any = type(value)
    if kind is tuple:
        return all(map(is_constant, value))
    if may_be_constant(kind):
        return all(is_constant(getattr(value, part.name)) for part in dataclasses.fields(value))
    is_our_name = isinstance(value, enum.Enum) and kind.__module__.partition(".")[0] == PACKAGE
    return is_our_name or kind in ATOMS or kind in (float, complex, range)
