"""Conversions of one number: cvt. PTX ISA 9.7.9 (cvt)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nvbackend.simulator.formats import FORMATS
from nvbackend.simulator.formats.odd import to_odd
from nvbackend.simulator.scalar.kinds import NAN, WIDTHS, flushed, saturated, wide_values
from nvbackend.simulator.scalar.pure import INTEGERS, SIGNED, UNSIGNED, Bits, Pure, Spelling, Unknown, limits, numbers

_TO_INTEGER = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_TO_FLOAT = ("rn", "rz", "rm", "rp")
_ROUNDED_OR_NOT = (("f32", "bf16"), ("f64", "bf16"), ("f16", "bf16"), ("bf16", "f16"))
"""Conversions that may have a rounding or not."""
Function = Callable[[Bits], Bits]


def _cvt(spelling: Spelling) -> Pure:
    rounding = spelling.take(*_TO_INTEGER, *_TO_FLOAT)
    ftz = spelling.has("ftz")
    sat = spelling.has("sat")
    to = spelling.must(*INTEGERS, *WIDTHS)
    source = spelling.must(*INTEGERS, *WIDTHS)
    if sat and ("bf16" in (to, source) or _holds(to, source)):
        raise Unknown
    function = _function(rounding, to, source, sat=sat)
    if ftz:
        function = _flushing(function, to, source, rounding)
    return Pure((to,), (source,), lambda a: (function(a),))


def _holds(to: str, source: str) -> bool:
    """Whether an integer type has all numbers of another one, so that there is nothing to clamp."""
    if to not in INTEGERS or source not in INTEGERS:
        return False
    (low, high), (first, last) = limits(to), limits(source)
    return low <= first and last <= high


def _function(rounding: str, to: str, source: str, *, sat: bool) -> Function:
    if to in INTEGERS and source in INTEGERS:
        if rounding:
            raise Unknown
        return integers_to_integers(to, source, sat=sat)
    if to in INTEGERS:
        if rounding not in _TO_INTEGER:
            raise Unknown
        return floats_to_integers(rounding, to, source)
    if source in INTEGERS:
        if rounding not in _TO_FLOAT:
            raise Unknown
        function = integers_to_floats(rounding, to, source)
    else:
        function = floats_to_floats(rounding, to, source)
    return (lambda a: saturated(function(a), to)) if sat else function


def _flushing(function: Function, to: str, source: str, rounding: str) -> Function:
    """With .ftz, which chips do nothing for where an f32 becomes an f16 (docs/divergences.md)."""
    if "f32" not in (to, source):
        raise Unknown
    if (to, source) == ("f16", "f32"):
        return function
    if (to, source) == ("f32", "f64"):
        return _flushing_doubles(function, rounding)

    def call(a: Bits) -> Bits:
        found = function(flushed(a, source) if source == "f32" else a)
        return _canonical(flushed(found, to), to) if to == "f32" else found

    return call


def _canonical(bits: Bits, kind: str) -> Bits:
    return np.where(np.isnan(wide_values(bits, kind)), NAN[WIDTHS[kind]], bits)


_LEAST = 2.0**-126
_ABOVE_24_BITS = _LEAST - 2.0**-150 + 2.0**-179
"""The f64 after the greatest one below 2^-126 that 24 bits hold."""
_NEAR_LEAST = {"rn": _LEAST - 2.0**-151, "rp": _ABOVE_24_BITS, "rm": _ABOVE_24_BITS, "rz": _LEAST}
"""The least f64 that is not flushed: what 24 bits round to 2^-126, rm if it is negative, rp if it is positive."""


def _flushing_doubles(function: Function, rounding: str) -> Function:
    """Instructions that ptxas makes of it, on every chip, compare the f64."""
    other = {"rp": 1.0, "rm": -1.0}.get(rounding)

    def call(a: Bits) -> Bits:
        given = a.view(np.float64)
        least = _NEAR_LEAST[rounding]
        limit = least if other is None else np.where(given * other > 0, least, _LEAST)
        found = function(a)
        return np.where(np.abs(given) < limit, found & np.uint32(1 << 31), found)

    return call


def integers_to_integers(to: str, source: str, *, sat: bool) -> Function:
    """Cut off or extended by the sign of `source`; with `sat`, clamped."""
    unsigned = UNSIGNED[INTEGERS[to]]
    if not sat:
        return lambda a: (
            numbers(a, source).astype(SIGNED[INTEGERS[to]] if source[0] == "s" else unsigned).view(unsigned)
        )
    low, high = limits(to)
    first, last = limits(source)
    low, high = max(low, first), min(high, last)
    return lambda a: np.clip(numbers(a, source), low, high).astype(dtype_of(to)).view(unsigned)


def dtype_of(kind: str) -> np.dtype[Any]:
    """NumPy's type of an integer."""
    found: np.dtype[Any] = np.dtype((SIGNED if kind[0] == "s" else UNSIGNED)[INTEGERS[kind]])
    return found


def floats_to_integers(rounding: str, to: str, source: str) -> Function:
    """Rounded to a whole number and clamped; NaN is 0, or the highest bit alone for f64 or to 64 bits."""
    whole = _TO_INTEGER[rounding]
    bits = INTEGERS[to]
    low, high = limits(to)
    beyond = float(high + 1)
    nan = UNSIGNED[bits](1 << (bits - 1) if source == "f64" or bits == INTEGERS["u64"] else 0)
    signed, unsigned = dtype_of(to), UNSIGNED[bits]

    def call(a: Bits) -> Bits:
        given = whole(wide_values(a, source))
        inside = (given >= low) & (given < beyond)
        found: Bits = np.where(inside, given, 0.0).astype(signed).view(unsigned)
        if np.count_nonzero(inside) == inside.size:
            return found
        clamped = np.where(given < 0, unsigned(low & ((1 << bits) - 1)), unsigned(high))
        return np.where(inside, found, np.where(np.isnan(given), nan, clamped))

    return call


def integers_to_floats(rounding: str, to: str, source: str) -> Function:
    """Rounded once."""
    if rounding == "rn" and to in ("f32", "f64"):
        dtype, unsigned = (np.float32, np.uint32) if to == "f32" else (np.float64, np.uint64)
        return lambda a: numbers(a, source).astype(dtype).view(unsigned)
    if to == "f64":
        return lambda a: _directed_f64(numbers(a, source), rounding)
    encode = FORMATS[to].encode
    return lambda a: encode(_odd_integers(numbers(a, source)), rounding)


def _remainders(given: Bits, near: Bits) -> Bits:
    """What integers of 64 bits have more than the float64 next to them; 2^64 wraps to 0, and the difference with it."""
    top = near >= 2.0 ** (64 if given.dtype.kind == "u" else 63)
    back = np.where(top, 0.0, near).astype(given.dtype).view(np.uint64)
    back = np.where(top, np.uint64(0 if given.dtype.kind == "u" else 1 << 63), back)
    return (given.view(np.uint64) - back).view(np.int64).astype(np.float64)


def _odd_integers(given: Bits) -> Bits:
    near = given.astype(np.float64)
    return to_odd(near, _remainders(given, near)) if given.dtype.itemsize == np.dtype(np.uint64).itemsize else near


def _directed_f64(given: Bits, rounding: str) -> Bits:
    near = given.astype(np.float64)
    if given.dtype.itemsize < near.dtype.itemsize:
        return near.view(np.uint64)
    rest = _remainders(given, near)
    up = (rest > 0) & ((rounding == "rp") | ((rounding == "rz") & (near < 0)))
    down = (rest < 0) & ((rounding == "rm") | ((rounding == "rz") & (near > 0)))
    return np.where(up, np.nextafter(near, np.inf), np.where(down, np.nextafter(near, -np.inf), near)).view(np.uint64)


def floats_to_floats(rounding: str, to: str, source: str) -> Function:
    """Rounded once; with an integer rounding, to whole numbers of the same type."""
    if rounding in _TO_INTEGER:
        if to != source:
            raise Unknown
        whole, encode = _TO_INTEGER[rounding], FORMATS[to].encode
        return lambda a: encode(whole(wide_values(a, source)))
    narrows = FORMATS[to].mantissa < FORMATS[source].mantissa
    if bool(rounding) != narrows and (to, source) not in _ROUNDED_OR_NOT:
        raise Unknown
    if to == source:
        return lambda a: a.copy() if to in ("f32", "f64") else _canonical(a, to)
    if (to, source) == ("f32", "bf16"):
        return lambda a: a.astype(np.uint32) << np.uint32(16)
    encode = FORMATS[to].encode
    if source == "f64":
        return _with_payload(lambda a: encode(a.view(np.float64), rounding), to)
    return lambda a: encode(wide_values(a, source), rounding or "rn")


def _with_payload(function: Function, to: str) -> Function:
    """A NaN of f64 keeps its sign and the highest bits of its mantissa, the first of them set."""
    form = FORMATS[to]
    infinity, quiet = form.dtype.type(form.infinity), form.dtype.type(1 << (form.mantissa - 1))
    sign, size = np.uint64(63 - form.storage + 1), np.uint64((1 << form.mantissa) - 1)
    cut = np.uint64(FORMATS["f64"].mantissa - form.mantissa)

    def call(a: Bits) -> Bits:
        found = function(a)
        is_nan = np.isnan(a.view(np.float64))
        if not np.count_nonzero(is_nan):
            return found
        signs = (a >> sign).astype(form.dtype) & form.dtype.type(form.sign)
        payload = ((a >> cut) & size).astype(form.dtype)
        return np.where(is_nan, signs | infinity | quiet | payload, found)

    return call


MAKERS = {"cvt": _cvt}
