"""PTX types as raw bits: how many, and the arrays that hold them. PTX ISA 5.2."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np

from nvbackend.simulator.events import Bits

_CONTAINERS = {1: np.bool_, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
_SMALL = {"e4m3": 8, "e5m2": 8, "ue8m0": 8, "ue4m3": 8, "e3m2": 8, "e2m3": 8, "e2m1": 4, "s2f6": 8, "tf32": 32}
_FORM = re.compile(r"(?P<scalar>[a-z0-9]+?)(?:x(?P<count>\d+))?$")
_SIGNED = {np.uint8: np.int8, np.uint16: np.int16, np.uint32: np.int32, np.uint64: np.int64}


@cache
def bits(type: str) -> int | None:
    """How many bits a type has: 32 for f32, f16x2, e4m3x4; 1 for pred; None where it is not a type."""
    if type in ("pred", "cc"):
        return 1
    form = _FORM.match(type)
    if form is None:
        return None
    scalar, count = form["scalar"], int(form["count"] or 1)
    number = re.fullmatch(r"(?:[busf]|bf)(\d+)", scalar)
    each = int(number[1]) if number else _SMALL.get(scalar)
    return None if each is None else each * count


@cache
def container(type: str) -> Any:
    """The NumPy type of a register's array; uint64 for b128, which has two of them a lane."""
    width = bits(type)
    if width == 128:
        return np.uint64
    return _CONTAINERS[next(size for size in _CONTAINERS if size >= (width or 64))]


def extended(values: Bits, dtype: Any, *, is_signed: bool) -> Bits:
    """Values in a wider or narrower array: sign-extended, zero-extended, or the low bits."""
    if values.dtype == dtype:
        return values
    if is_signed and values.dtype != np.bool_:
        signed = values.view(_SIGNED[values.dtype.type])
        return signed.astype(_SIGNED[np.dtype(dtype).type]).view(dtype)
    return values.astype(dtype)
