"""Values that nothing changes: Python's own, and frozen records of this package."""

from __future__ import annotations

import dataclasses
import enum
import functools
import types
from collections.abc import Hashable
from typing import Any

PACKAGE = __name__.partition(".")[0]
ATOMS = frozenset({int, str, bytes, bool, types.NoneType, types.EllipsisType, types.NotImplementedType})


@functools.lru_cache(maxsize=256)
def is_ours(cls: type) -> bool:
    """Whether it is this package's with all its bases: it does not change."""
    return all(base is object or base.__module__.partition(".")[0] == PACKAGE for base in cls.__mro__)


@functools.lru_cache(maxsize=256)
def may_be_constant(cls: Hashable) -> bool:
    """Whether objects of the class are records of ours that nothing changes, if nothing changes what they hold."""
    kind: Any = cls
    return is_ours(kind) and hasattr(kind, _RECORD) and getattr(kind, _RECORD).frozen


_RECORD = "__dataclass_params__"


def is_constant(value: Any) -> bool:
    """Whether nothing changes `value`, nor anything that it holds."""
    kind: Any = type(value)
    if kind is tuple:
        return all(map(is_constant, value))
    if may_be_constant(kind):
        return all(is_constant(getattr(value, part.name)) for part in dataclasses.fields(value))
    is_our_name = isinstance(value, enum.Enum) and kind.__module__.partition(".")[0] == PACKAGE
    return is_our_name or kind in ATOMS or kind in (float, complex, range)
