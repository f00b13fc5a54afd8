"""Objects whose own methods raise or never end, and numbers that look like others: arguments that no program means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

_ASKED = (
    *("__repr__", "__str__", "__bool__", "__len__", "__iter__", "__index__", "__int__", "__float__", "__hash__"),
    *("__format__", "__getattr__", "__contains__", "__array__", "__fspath__", "__lt__", "__add__"),
)
"""What Python asks of an object, often without its name being written."""


def _raising(name: str) -> Callable[..., Any]:
    def method(self: object, *_: object, **__: object) -> Any:
        raise RuntimeError(f"{name} of {type(self)} raises")

    return method


def _with(*names: str, of: type = object, **more: Any) -> type:
    return type(f"Bad{names[0].strip('_').title()}", (of,), {name: _raising(name) for name in names} | more)


class Endless:
    """An iterable without an end."""

    def __iter__(self) -> Endless:
        return self

    def __next__(self) -> int:
        return 1

    def __getitem__(self, _: object) -> int:
        return 1


class Long(Endless):
    """What says that it has a thousand million entries."""

    def __len__(self) -> int:
        return 10**9


_Class = type("BadClass", (), {"__class__": property(_raising("__class__"))})
HOSTILE: tuple[object, ...] = (
    *(_with(name)() for name in _ASKED),
    *(_with("__eq__")(), _with("__eq__", __hash__=lambda _: 1)(), _with(*_ASKED, "__eq__")(), _Class()),
    _with("__index__", "__eq__", "__lt__", "__gt__", "__repr__", of=int, __hash__=lambda _: 3)(3),
    _with("__eq__", "__hash__", "__repr__", "partition", of=str)("sm_90a"),
    _with("__iter__", "__len__", of=list)([1, 2]),
    _with("__iter__", "items", "keys", of=dict)({1: 2}),
    *(Endless(), Long(), np.ma.masked, True, "\0", "a\0b"),
    *(np.bool_(True), np.int64(-1), np.float64("nan"), np.array(3), np.array([]), np.array([1.0, np.nan])),
    *(np.array(["a"]), np.array([None], dtype=object), np.zeros((3, 3, 3))),
)
