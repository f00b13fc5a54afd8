"""The types of matrices: how wide their elements are in registers and memory, and what their codes are worth."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nvbackend.simulator.formats import FORMATS
from nvbackend.simulator.tensor.numerics import Numbers, numbers

Array = NDArray[Any]

_INTEGERS = {"s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1, "s32": 32}
_NARROW = frozenset({"f16", "e4m3", "e5m2", "e3m2", "e2m3", "e2m1"})
"""Types of which the product of two numbers fits float32, in range and in precision."""
_CONTAINED = {"e2m1": (2, 0xF), "e3m2": (0, 0x3F), "e2m3": (0, 0x3F)}
"""Where an element of less than 8 bits lies in a byte of its own: its lowest bit, and a mask. PTX ISA 9.7.14.5.14."""


def width(name: str) -> int:
    """The bits of an element that has no container of its own: 32 of tf32, 6 of e2m3."""
    return _INTEGERS[name] if name in _INTEGERS else FORMATS[name].storage if name not in ("e3m2", "e2m3") else 6


def is_integer(name: str) -> bool:
    """Whether sums of this type are integers: of s8 as of b1."""
    return name in _INTEGERS


def is_type(name: str) -> bool:
    """Whether a part of an opcode is a type of elements."""
    return name in _INTEGERS or name in FORMATS


def from_bytes(name: str, codes: Array) -> Array:
    """The codes of elements that have a byte each, of f8f6f4 and mxf8f6f4."""
    low, mask = _CONTAINED.get(name, (0, 0xFF))
    found: Array = (codes >> codes.dtype.type(low)) & codes.dtype.type(mask)
    return found


def floats(name: str, codes: Array, *, within: str = "") -> Numbers:
    """The numbers that codes of a floating-point type are, with the exponents that they are aligned by: those that they
    have in the format `within`, where they are converted to it before."""
    form = FORMATS[name]
    least = 1 - FORMATS[within or name].bias
    return numbers(form.decode(codes.astype(form.dtype)), least, narrow=name in _NARROW)


def integers(name: str, codes: Array) -> Array:
    """The integers that codes are, as float64."""
    found = codes.astype(np.int64)
    if name.startswith("s"):
        sign = 1 << (_INTEGERS[name] - 1)
        found = (found ^ sign) - sign
    return found.astype(np.float64)
