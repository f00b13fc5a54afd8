"""Division, roots and transcendental functions, and their approximations. PTX ISA 9.7.3 and 9.7.4.

An approximation is the number nearest to what the function of float64 gives: within the error that PTX allows, and not
the bits of a GPU.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nvbackend.simulator.formats import FORMATS
from nvbackend.simulator.formats.exact import EXACT, directed
from nvbackend.simulator.scalar.floats import ROUNDINGS, with_modifiers
from nvbackend.simulator.scalar.kinds import PACKED, canonical, flushed, on_elements, wide_values
from nvbackend.simulator.scalar.pure import Bits, Pure, Spelling, Unknown

Function = Callable[..., Bits]
_UPPER = np.uint64(0xFFFFFFFF00000000)
_NAN_UPPER = np.uint64(0x7FFFFFFF00000000)
_LARGE = 2.0**126


_APPROXIMATE: dict[str, Function] = {
    "rcp": lambda a: 1.0 / a,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1.0 / np.sqrt(a),
    "sin": np.sin,
    "cos": np.cos,
    "lg2": np.log2,
    "ex2": np.exp2,
    "tanh": np.tanh,
}
_HALVES = {"ex2": ("f16", "f16x2"), "tanh": ("f16", "f16x2", "bf16", "bf16x2")}


def _approximation(name: str, kind: str) -> Function:
    function = _APPROXIMATE[name]
    if kind == "f32":
        return lambda a: canonical(function(a.view(np.float32).astype(np.float64)).astype(np.float32))
    encode = FORMATS[kind].encode
    return lambda a: encode(function(wide_values(a, kind)))


def _function(spelling: Spelling) -> Pure:
    """One operand: approximate, or rounded once."""
    name = spelling.name
    rounding = spelling.take(*ROUNDINGS) if name in ("rcp", "sqrt") else ""
    if rounding:
        return _rounded(spelling, name, rounding)
    spelling.must("approx")
    ftz = name != "tanh" and spelling.has("ftz")
    kind = spelling.must("f32", "f64", "f16", "f16x2", "bf16", "bf16x2")
    if kind == "f64":
        return _double(name, ftz=ftz)
    element = PACKED.get(kind, kind)
    halves = ("bf16", "bf16x2") if name == "ex2" and ftz else _HALVES.get(name, ())
    if kind != "f32" and kind not in halves:
        raise Unknown
    call = with_modifiers(_approximation(name, element), element, ftz=ftz)
    return Pure((kind,), (kind,), on_elements(kind, call))


def _double(name: str, *, ftz: bool) -> Pure:
    """rcp and rsqrt of the upper words alone (.ftz), and rsqrt of all bits."""
    if name not in ("rcp", "rsqrt") or (name == "rcp" and not ftz):
        raise Unknown
    function = _APPROXIMATE[name]

    def upper(a: Bits) -> tuple[Bits]:
        given = flushed(a & _UPPER, "f64").view(np.float64)
        found = flushed(function(given).view(np.uint64) & _UPPER, "f64")
        return (np.where(np.isnan(found.view(np.float64)), _NAN_UPPER, found),)

    return Pure(("f64",), ("f64",), upper if ftz else lambda a: (canonical(function(a.view(np.float64))),))


def _rounded(spelling: Spelling, name: str, rounding: str) -> Pure:
    """rcp and sqrt of f32 and f64, rounded once."""
    ftz = spelling.has("ftz")
    kind = spelling.must(*(("f32",) if ftz else ("f32", "f64")))
    if name == "sqrt":
        return Pure((kind,), (kind,), on_elements(kind, with_modifiers(_root(kind, rounding), kind, ftz=ftz)))
    divide = quotient(kind, rounding)
    one = FORMATS[kind].dtype.type(FORMATS[kind].bias << FORMATS[kind].mantissa)
    reciprocal = _APPROXIMATE["rcp"]
    call = with_modifiers(
        lambda a: divide(np.full_like(a, one), a),
        kind,
        ftz=ftz,
        exact=lambda a: reciprocal(wide_values(a, kind)),
        rounding=rounding,
    )
    return Pure((kind,), (kind,), on_elements(kind, call))


def _root(kind: str, rounding: str) -> Function:
    if kind == "f64":
        return lambda a: canonical(directed(np.sqrt, EXACT["sqrt"], rounding, a.view(np.float64)))
    if rounding == "rn":
        return lambda a: canonical(np.sqrt(a.view(np.float32)))
    return lambda a: FORMATS[kind].encode(np.sqrt(wide_values(a, kind)), rounding)


def quotient(kind: str, rounding: str) -> Function:
    """a / b on bits, rounded once. A quotient of two f32 is an f32, or halfway between two, only if its float64 is."""
    if kind == "f64":
        return lambda a, b: canonical(
            directed(np.divide, EXACT["div"], rounding, a.view(np.float64), b.view(np.float64))
        )
    if rounding == "rn":
        return lambda a, b: canonical(np.divide(a.view(np.float32), b.view(np.float32)))
    return lambda a, b: FORMATS[kind].encode(wide_values(a, kind) / wide_values(b, kind), rounding)


def _divide(spelling: Spelling) -> Pure:
    """div of floats: .approx, .full, or rounded once."""
    form = spelling.must("approx", "full", *ROUNDINGS)
    ftz = spelling.has("ftz")
    kind = spelling.must(*(("f32", "f64") if form in ROUNDINGS and not ftz else ("f32",)))
    call = quotient(kind, form if form in ROUNDINGS else "rn")
    if form == "approx":
        rounded_once = call

        def call(a: Bits, b: Bits) -> Bits:
            size = np.abs(b.view(np.float32))
            return np.where((size > _LARGE) & (size < np.inf), _by_a_large_one(a, b), rounded_once(a, b))

    def exact(a: Bits, b: Bits) -> Bits:
        return wide_values(a, kind) / wide_values(b, kind)

    return Pure(
        (kind,), (kind, kind), on_elements(kind, with_modifiers(call, kind, ftz=ftz, exact=exact, rounding=form))
    )


def _by_a_large_one(a: Bits, b: Bits) -> Bits:
    """A divisor above 2^126, whose reciprocal is taken for 0."""
    return canonical(a.view(np.float32) * np.copysign(np.float32(0), b.view(np.float32)))


MAKERS = {**dict.fromkeys(_APPROXIMATE, _function), "div": _divide}
