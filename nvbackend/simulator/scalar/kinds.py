"""Floating-point registers as values, and values as registers: NaN, subnormal numbers, saturation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nvbackend.simulator.formats import FORMATS
from nvbackend.simulator.scalar.pure import UNSIGNED, Bits, Call

NAN: dict[int, Any] = {16: np.uint16(0x7FFF), 32: np.uint32(0x7FFFFFFF), 64: np.uint64(0x7FF8000000000000)}
"""The bits of a result that is not a number."""
_EXPONENT = {name: FORMATS[name].dtype.type(FORMATS[name].infinity) for name in ("f16", "bf16", "f32", "f64")}
_SIGN = {name: FORMATS[name].dtype.type(FORMATS[name].sign) for name in _EXPONENT}
_ONE = {name: FORMATS[name].dtype.type(FORMATS[name].bias << FORMATS[name].mantissa) for name in _EXPONENT}
PACKED = {"f16x2": "f16", "bf16x2": "bf16", "f32x2": "f32"}
"""Types of two in a register."""


def canonical(values: Bits) -> Bits:
    """The bits of fresh f16, f32 or f64 results, NaN as `NAN`."""
    width = 8 * values.dtype.itemsize
    bits: Bits = values.view(UNSIGNED[width])
    is_nan = values != values  # noqa: PLR0124
    if np.count_nonzero(is_nan):
        bits[is_nan] = NAN[width]
    return bits


def flushed(bits: Bits, kind: str) -> Bits:
    """Subnormal numbers as zeros of their sign."""
    return np.where(bits & _EXPONENT[kind], bits, bits & _SIGN[kind])


def saturated(bits: Bits, kind: str) -> Bits:
    """Clamped to 0 to 1, NaN to +0. Positive numbers stand in the order of their bits."""
    one, infinity = _ONE[kind], _EXPONENT[kind]
    found: Bits = np.where(bits <= infinity, np.minimum(bits, one), bits.dtype.type(0))
    return found


def rectified(bits: Bits, kind: str) -> Bits:
    """Negative numbers as +0; NaN stays, canonical."""
    is_nan = (bits & ~_SIGN[kind]) > _EXPONENT[kind]
    return np.where(is_nan, NAN[WIDTHS[kind]], np.where(bits & _SIGN[kind], bits.dtype.type(0), bits))


def bf16_values(bits: Bits) -> Bits:
    """bf16 as f32, exactly."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def values(bits: Bits, kind: str) -> Bits:
    """The numbers in f16, f32 or f64 as these; in bf16 as f32."""
    if kind == "bf16":
        return bf16_values(bits)
    found: Bits = bits.view(FLOATS[kind])
    return found


def wide_values(bits: Bits, kind: str) -> Bits:
    """The numbers as float64."""
    return FORMATS[kind].decode(bits)


FLOATS: dict[str, Any] = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
WIDTHS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}


def on_elements(kind: str, call: Callable[..., Bits]) -> Call:
    """A function of numbers' bits as one of registers, each of one number or of two."""
    if kind not in PACKED:
        return lambda *given: (call(*given),)
    part = UNSIGNED[WIDTHS[PACKED[kind]]]
    whole = UNSIGNED[2 * WIDTHS[PACKED[kind]]]
    return lambda *given: (call(*(one.view(part) for one in given)).view(whole),)
