"""LLVM's integer operations on tables of numbers: what each thread's bits are, and where the result is defined.

Numbers are kept unsigned, wrapped around at their width: as np.uint64, as Python's integers where they have more bits.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = npt.NDArray[Any]
"""A number for each elected lane, rank and thread: np.uint64 or, of more than 64 bits, Python's integers."""
Mask: TypeAlias = npt.NDArray[np.bool_]
Result: TypeAlias = "tuple[Numbers, Mask | None]"
"""Numbers, and where they are defined: None for everywhere."""

NATIVE = 64


def constant(number: int, width: int) -> Numbers:
    """A number that is the same everywhere."""
    return np.full((1, 1, 1), number & (1 << width) - 1, np.uint64 if width <= NATIVE else object)


def wrapped(numbers: Numbers, width: int) -> Numbers:
    """What is left of `numbers` in `width` bits."""
    if width > NATIVE:
        return numbers.astype(object) & (1 << width) - 1
    if numbers.dtype == object:
        return (numbers & (1 << width) - 1).astype(np.uint64)
    numbers = numbers.astype(np.uint64, copy=False)
    return numbers if width == NATIVE else numbers & np.uint64((1 << width) - 1)


def _literal(number: int, numbers: Numbers) -> Any:
    """`number` so that NumPy keeps the kind of `numbers`."""
    return number if numbers.dtype == object else np.uint64(number)


def _extended(numbers: Numbers, width: int) -> Numbers:
    """The numbers with their sign, in two's complement at 64 bits or as Python's."""
    half = _literal(1 << width - 1, numbers)
    extended: Numbers = (numbers ^ half) - half
    return extended


def signed(numbers: Numbers, width: int) -> Numbers:
    """The numbers that these bits are in two's complement."""
    extended = _extended(numbers, width)
    return extended if extended.dtype == object else extended.view(np.int64)


def _shift(function: Callable[[Any, Any], Any], *, arithmetic: bool = False) -> Callable[..., Result]:
    def shifted(a: Numbers, b: Numbers, width: int) -> Result:
        within = (b < _literal(width, b)).astype(bool)
        amount = np.where(within, b, _literal(0, b))
        if arithmetic and a.dtype != object:
            return function(signed(a, width), amount.astype(np.int64)).view(np.uint64), _where(within)
        return function(_extended(a, width) if arithmetic else a, amount), _where(within)

    return shifted


def _unsigned_division(function: Callable[[Any, Any], Any]) -> Callable[..., Result]:
    def divided(a: Numbers, b: Numbers, _width: int) -> Result:
        usable = (b != 0).astype(bool)
        return function(a, np.where(usable, b, _literal(1, b))), _where(usable)

    return divided


def _signed_division(function: Callable[[Any, Any], Any], *, rest: bool) -> Callable[..., Result]:
    """Towards zero, as the magnitudes are divided; a rest has the sign of the dividend."""

    def divided(a: Numbers, b: Numbers, width: int) -> Result:
        half, ones = _literal(1 << width - 1, a), _literal((1 << width) - 1, b)
        usable = (b != 0).astype(bool) & ~((a == half) & (b == ones)).astype(bool)
        left_negative, right_negative = (a >= half).astype(bool), (b >= half).astype(bool)
        left, right = _magnitude(a, left_negative, width), _magnitude(b, right_negative, width)
        result = function(left, np.where(usable, right, _literal(1, right)))
        negative = left_negative if rest else left_negative ^ right_negative
        return np.where(negative, _literal(0, result) - result, result), _where(usable)

    return divided


def _magnitude(numbers: Numbers, negative: Mask, width: int) -> Numbers:
    extended = _extended(numbers, width)
    return np.where(negative, _literal(0, extended) - extended, extended)


def _where(defined: Mask) -> Mask | None:
    return None if defined.all() else defined


def _everywhere(function: Callable[[Any, Any], Any]) -> Callable[..., Result]:
    return lambda a, b, _width: (function(a, b), None)


def _of_signed(function: Callable[[Any, Any], Any]) -> Callable[..., Result]:
    return lambda a, b, width: (function(signed(a, width), signed(b, width)), None)


def _chosen(order: Callable[[Any, Any], Any], *, with_sign: bool) -> Callable[..., Result]:
    def extreme(a: Numbers, b: Numbers, width: int) -> Result:
        left, right = (signed(a, width), signed(b, width)) if with_sign else (a, b)
        return np.where(order(left, right).astype(bool), a, b), None

    return extreme


_BINARY: dict[str, Callable[..., Result]] = {
    "add": _everywhere(operator.add),
    "sub": _everywhere(operator.sub),
    "mul": _everywhere(operator.mul),
    "and": _everywhere(operator.and_),
    "or": _everywhere(operator.or_),
    "xor": _everywhere(operator.xor),
    "shl": _shift(operator.lshift),
    "lshr": _shift(operator.rshift),
    "ashr": _shift(operator.rshift, arithmetic=True),
    "udiv": _unsigned_division(operator.floordiv),
    "urem": _unsigned_division(operator.mod),
    "sdiv": _signed_division(operator.floordiv, rest=False),
    "srem": _signed_division(operator.mod, rest=True),
    "eq": _everywhere(operator.eq),
    "ne": _everywhere(operator.ne),
    "ult": _everywhere(operator.lt),
    "ule": _everywhere(operator.le),
    "ugt": _everywhere(operator.gt),
    "uge": _everywhere(operator.ge),
    "slt": _of_signed(operator.lt),
    "sle": _of_signed(operator.le),
    "sgt": _of_signed(operator.gt),
    "sge": _of_signed(operator.ge),
    "umin": _chosen(operator.lt, with_sign=False),
    "umax": _chosen(operator.gt, with_sign=False),
    "smin": _chosen(operator.lt, with_sign=True),
    "smax": _chosen(operator.gt, with_sign=True),
}
CASTS = ("zext", "sext", "trunc")


def is_binary(operation: str) -> bool:
    """Whether it is an operation, a comparison or an extreme of two integers."""
    return operation in _BINARY


def binary(operation: str, a: Numbers, b: Numbers, width: int, to: int) -> Result:
    """`a operation b`, both of `width` bits, in `to` bits: those of a comparison are one."""
    with np.errstate(all="ignore"):  # numbers wrap around
        numbers, defined = _BINARY[operation](a, b, width)
    return wrapped(numbers, to), defined


def cast(operation: str, numbers: Numbers, width: int, to: int) -> Numbers:
    """The same number in other bits: `zext`, `sext` or `trunc`."""
    if operation == "sext":
        return wrapped(signed(numbers, width), to) if to > NATIVE else wrapped(_extended(numbers, width), to)
    return wrapped(numbers, to)


def broken(operation: str, flags: tuple[str, ...], a: Numbers, b: Numbers, width: int) -> Mask | None:
    """Where a result is undefined for what the instruction promises of it: nsw, nuw, exact."""
    exact = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "shl": operator.lshift}.get(operation)
    left, right = a.astype(object), b.astype(object)
    found = np.zeros(np.broadcast_shapes(a.shape, b.shape), bool)
    if operation in ("shl", "lshr", "ashr"):
        right = np.where((right < width).astype(bool), right, 0)
    if exact is not None and "nuw" in flags:
        result = exact(left, right)
        found |= (result != wrapped(result, width)).astype(bool)
    if exact is not None and "nsw" in flags:
        result = exact(signed(left, width), right if operation == "shl" else signed(right, width))
        found |= (result != signed(result & (1 << width) - 1, width)).astype(bool)
    if "exact" in flags:
        rests = {"udiv": "urem", "sdiv": "srem"}
        if operation in rests:
            found |= (_BINARY[rests[operation]](a, b, width)[0] != 0).astype(bool)
        else:
            found |= (left >> right << right != left).astype(bool)
    return found if found.any() else None
