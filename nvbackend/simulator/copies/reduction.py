"""Reductions that copies perform on memory: the operation on bytes of a PTX type. PTX ISA 9.7.9 (cp.reduce.async)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Values = NDArray[Any]

_DTYPES: Final[dict[str, str]] = {
    "u8": "u1",
    "u16": "u2",
    "u32": "<u4",
    "s32": "<i4",
    "b32": "<u4",
    "u64": "<u8",
    "s64": "<i8",
    "b64": "<u8",
    "f16": "<f2",
    "bf16": "<u2",
    "f32": "<f4",
    "f32.ftz": "<f4",
    "tf32": "<f4",
    "tf32.ftz": "<f4",
    "f64": "<f8",
}
_INTEGERS: Final[dict[str, Callable[[Values, Values], Values]]] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "inc": lambda old, top: np.where(old >= top, 0, old + 1).astype(old.dtype),
    "dec": lambda old, top: np.where((old == 0) | (old > top), top, old - 1).astype(old.dtype),
}
_BF16_NAN: Final = 0x7FFF


def can_reduce(operation: str, type_name: str) -> bool:
    """Whether there is such an operation on values of this type."""
    if type_name not in _DTYPES:
        return False
    return operation in ("add", "min", "max") if "f" in type_name else operation in _INTEGERS


def combined(operation: str, type_name: str, old: Bytes, new: Bytes) -> Bytes:
    """`old` after the operation with `new`, arrays of bytes of one shape whose last axis holds whole values.

    `type_name` is a PTX type, or an element type of a tensor map; one that ends in .ftz flushes subnormal numbers.
    """
    dtype = np.dtype(_DTYPES[type_name])
    before, operand = (np.ascontiguousarray(each).view(dtype) for each in (old, new))
    with np.errstate(all="ignore"):
        if "f" in type_name:
            after = _nan_as_it_is(_of_floats(operation, type_name, before, operand), before, operand)
        else:
            after = _INTEGERS[operation](before, operand)
    return np.ascontiguousarray(after.astype(dtype, copy=False)).view(np.uint8)


def _of_floats(operation: str, type_name: str, before: Values, operand: Values) -> Values:
    if type_name == "bf16":
        left, right = ((each.astype(np.uint32) << 16).view(np.float32) for each in (before, operand))
        return _bf16(_sum_or_extreme(operation, left, right))
    if type_name == "f16":
        left, right = (each.astype(np.float32) for each in (before, operand))
        return _sum_or_extreme(operation, left, right).astype(np.float16)
    if type_name.endswith(".ftz"):
        return _flushed(_sum_or_extreme(operation, _flushed(before), _flushed(operand)))
    return _sum_or_extreme(operation, before, operand)


def _nan_as_it_is(after: Values, before: Values, operand: Values) -> Values:
    """With the bits that an H200 gives a NaN: all but the sign, or of f64 those of the operand that is one."""
    if after.dtype.kind != "f":  # bf16 is done
        return after
    if after.dtype.itemsize == np.dtype(np.float64).itemsize:
        given = np.where(np.isnan(operand), operand, np.where(np.isnan(before), before, after))
        return np.where(np.isnan(after), given, after)
    signed = np.dtype(f"i{after.dtype.itemsize}")
    return np.where(np.isnan(after), np.array([np.iinfo(signed).max], signed).view(after.dtype), after)


def _sum_or_extreme(operation: str, left: Values, right: Values) -> Values:
    """The sum, or the least or greatest that is not NaN; -0 is less than +0."""
    if operation == "add":
        return left + right
    choose, zero = (np.fmin, np.logical_or) if operation == "min" else (np.fmax, np.logical_and)
    picked = choose(left, right)
    both_zero = (left == 0) & (right == 0)
    signed = np.where(zero(np.signbit(left), np.signbit(right)), -0.0, 0.0).astype(left.dtype)
    return np.where(both_zero, signed, picked)


def _flushed(values: Values) -> Values:
    """Subnormal numbers replaced by zeros of their sign."""
    return np.where(np.abs(values) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), values), values)


def _bf16(values: Values) -> Values:
    """The bits of f32 values rounded to the nearest bf16, ties to even."""
    bits = values.view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(values), _BF16_NAN, rounded).astype(np.uint16)
