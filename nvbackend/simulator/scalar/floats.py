"""Floating-point addition, multiplication and fused multiply-add. PTX ISA 9.7.3 to 9.7.5."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nvbackend.simulator.formats import FORMATS
from nvbackend.simulator.formats.exact import EXACT, directed
from nvbackend.simulator.formats.fused import fused_f32, fused_f64
from nvbackend.simulator.formats.odd import odd_sum
from nvbackend.simulator.scalar.kinds import (
    FLOATS,
    PACKED,
    WIDTHS,
    canonical,
    flushed,
    on_elements,
    rectified,
    saturated,
    values,
    wide_values,
)
from nvbackend.simulator.scalar.pure import Bits, Pure, Spelling, Unknown

Function = Callable[..., Bits]
OUT_OF_BOUNDS = np.uint16(0x7FF7)
"""The bits, of either sign, that are an element out of bounds in f16 and bf16: an H100's, PTX ISA gives none."""
_SIZE = np.uint16(0x7FFF)
ROUNDINGS = ("rn", "rz", "rm", "rp")
KINDS = ("f32", "f64", "f16", "bf16", "f16x2", "bf16x2", "f32x2")
_PLAIN: dict[str, Function] = {"add": np.add, "sub": np.subtract, "mul": np.multiply}
_ODD: dict[str, Function] = {
    "add": odd_sum,
    "sub": lambda a, b: odd_sum(a, -b),
    "mul": np.multiply,
    "fma": lambda a, b, c: odd_sum(a * b, c),
}
"""On float64 whose products are exact: rounding the result once more rounds the exact one."""


def rounded(name: str, kind: str, rounding: str) -> Function:
    """The operation on bits of `kind`, rounded once."""
    if kind == "f64":
        return _double(name, rounding)
    if rounding == "rn" and kind != "bf16":
        if name in _PLAIN:
            return _plain(_PLAIN[name], FLOATS[kind])
        if kind == "f32":
            return lambda a, b, c: canonical(fused_f32(a.view(np.float32), b.view(np.float32), c.view(np.float32)))
    exact = _ODD[name]
    if rounding == "rm" and name != "mul":
        exact = _downward(exact)
    encode = FORMATS[kind].encode
    return lambda *given: encode(exact(*(wide_values(one, kind) for one in given)), rounding)


def _downward(exact: Function) -> Function:
    """A sum, of which what cancels is -0: the negative of the sum of the negative numbers."""
    return lambda a, *rest: -exact(-a, *rest[:-1], -rest[-1])


def _double(name: str, rounding: str) -> Function:
    nearest: Function = _PLAIN.get(name, fused_f64)
    if rounding == "rn":
        return lambda *given: canonical(nearest(*(one.view(np.float64) for one in given)))
    exact = EXACT[name]
    return lambda *given: canonical(directed(nearest, exact, rounding, *(one.view(np.float64) for one in given)))


def _plain(operation: Function, dtype: Any) -> Function:
    return lambda a, b: canonical(operation(a.view(dtype), b.view(dtype)))


def unrounded(name: str, kind: str) -> Function:
    """What an operation on bits of `kind` is before it is rounded, float64 that is rounded to odd."""
    return lambda *given: _ODD[name](*(wide_values(one, kind) for one in given))


def with_modifiers(
    function: Function,
    kind: str,
    *,
    ftz: bool = False,
    sat: bool = False,
    relu: bool = False,
    exact: Function | None = None,
    rounding: str = "rn",
) -> Function:
    """The function with its operands and results flushed, its result clamped.

    A result is flushed if it is subnormal once it is rounded to the digits of a normal number. `exact` is what is
    rounded, for operations that come so close to the least normal number that this matters.
    """
    if ftz:
        function = _flushing(function, kind, exact, rounding)
    if not (sat or relu):
        return function

    def call(*given: Bits) -> Bits:
        found = function(*given)
        if sat:
            found = saturated(found, kind)
        return rectified(found, kind) if relu else found

    return call


def _flushing(function: Function, kind: str, exact: Function | None, rounding: str) -> Function:
    form = FORMATS[kind]
    least, size = form.dtype.type(1 << form.mantissa), form.dtype.type(form.sign - 1)
    digit = 2.0 ** -(form.mantissa + 1)
    limit = float(wide_values(least, kind)) * (1 - (digit / 2 if rounding == "rn" else digit))

    def call(*given: Bits) -> Bits:
        given = tuple(flushed(one, kind) for one in given)
        found = flushed(function(*given), kind)
        if exact is None or not np.count_nonzero(edge := (found & size) == least):
            return found
        sizes = np.abs(exact(*given))
        is_tiny = sizes < limit if rounding == "rn" else sizes <= limit
        return np.where(edge & is_tiny, found & ~size, found)

    return call


def _arithmetic(spelling: Spelling) -> Pure:
    """add, sub, mul, fma and mad, which is fma, of one type."""
    name = "fma" if spelling.name == "mad" else spelling.name
    rounding = spelling.take(*ROUNDINGS)
    if name == "fma" and not rounding:
        raise Unknown
    ftz = spelling.has("ftz")
    sat = spelling.has("sat")
    oob = name == "fma" and spelling.has("oob")
    relu = name == "fma" and spelling.has("relu")
    kind = spelling.must(*(("f32", "f64") if spelling.name == "mad" else KINDS))
    element = PACKED.get(kind, kind)
    is_half = WIDTHS[element] == WIDTHS["f16"]
    if (is_half and rounding not in ("", "rn")) or ((oob or relu) and not is_half):
        raise Unknown
    if (ftz and element not in ("f32", "f16")) or (sat and kind not in ("f32", "f16", "f16x2")):
        raise Unknown
    if kind == "f32" and (source := spelling.take("f16", "bf16")):
        return _mixed(name, rounding or "rn", source, sat=sat)
    operation = rounded(name, element, rounding or "rn")
    exact = unrounded(name, element) if ftz else None
    function = with_modifiers(operation, element, ftz=ftz, sat=sat, relu=relu, exact=exact, rounding=rounding or "rn")
    if oob:
        function = _zero_out_of_bounds(function)
    return Pure((kind,), (kind,) * (3 if name == "fma" else 2), on_elements(kind, function))


def _mixed(name: str, rounding: str, source: str, *, sat: bool) -> Pure:
    """f32 of halves: all operands but the last."""
    function = with_modifiers(rounded(name, "f32", rounding), "f32", sat=sat)

    def call(*given: Bits) -> tuple[Bits]:
        return (function(*(values(one, source).astype(np.float32).view(np.uint32) for one in given[:-1]), given[-1]),)

    return Pure(("f32",), (source,) * (2 if name == "fma" else 1) + ("f32",), call)


def _zero_out_of_bounds(function: Function) -> Function:
    """+0 where a factor is the NaN that a tensor copy writes for what lies outside; as an addend it is any NaN."""

    def call(a: Bits, b: Bits, c: Bits) -> Bits:
        outside = ((a & _SIZE) == OUT_OF_BOUNDS) | ((b & _SIZE) == OUT_OF_BOUNDS)
        return np.where(outside, np.uint16(0), function(a, b, c))

    return call


MAKERS = dict.fromkeys(("add", "sub", "mul", "fma", "mad"), _arithmetic)
