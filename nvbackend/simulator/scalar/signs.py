"""What looks at floats without rounding them: min, max, abs, neg, copysign, testp. PTX ISA 9.7.3 and 9.7.4."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nvbackend.simulator.formats import FORMATS
from nvbackend.simulator.scalar.kinds import FLOATS, NAN, PACKED, WIDTHS, flushed, on_elements, values
from nvbackend.simulator.scalar.pure import UNSIGNED, Bits, Pure, Spelling, Unknown

_KINDS = ("f32", "f64", "f16", "bf16", "f16x2", "bf16x2")
Function = Callable[..., Bits]


def _sign(kind: str) -> Bits:
    """The sign bit of a number."""
    bit: Bits = UNSIGNED[WIDTHS[kind]](FORMATS[kind].sign)
    return bit


def _with_canonical_nan(bits: Bits, kind: str) -> Bits:
    is_nan = np.isnan(values(bits, kind))
    return np.where(is_nan, NAN[WIDTHS[kind]], bits) if np.count_nonzero(is_nan) else bits


def _extreme(spelling: Spelling) -> Pure:
    ftz = spelling.has("ftz")
    keeps_nan = spelling.has("NaN")
    xorsign = spelling.has("xorsign")
    sizes = spelling.must("abs") if xorsign else spelling.take("abs")
    kind = spelling.must(*_KINDS)
    element = PACKED.get(kind, kind)
    if (element == "f64" and (keeps_nan or sizes)) or (ftz and element not in ("f32", "f16")):
        raise Unknown
    function = _of_two(spelling.name == "min", element, keeps_nan=keeps_nan)
    sign = _sign(element)

    def call(*given: Bits) -> Bits:
        found = given = tuple(flushed(one, element) for one in given) if ftz else given
        if sizes:
            found = tuple(one & ~sign for one in given)
        least = found[0]
        for one in found[1:]:
            least = function(least, one)
        least = _with_canonical_nan(least, element)
        if xorsign:
            negative = (given[0] ^ given[1]) & sign
            return np.where(np.isnan(values(least, element)), least, least | negative)
        return least

    if kind == "f32" and not xorsign:
        return Pure((kind,), (kind,) * 3, on_elements(kind, call), optional=0 if sizes else 1)
    if sizes and not xorsign:
        raise Unknown
    return Pure((kind,), (kind, kind), on_elements(kind, call))


def _of_two(least: bool, kind: str, *, keeps_nan: bool) -> Function:
    """On bits; -0 is below +0. A NaN that comes out has any bits."""
    operation = {
        (True, False): np.fmin,
        (True, True): np.minimum,
        (False, False): np.fmax,
        (False, True): np.maximum,
    }[least, keeps_nan]
    of_equal = np.bitwise_or if least else np.bitwise_and

    def call(a: Bits, b: Bits) -> Bits:
        first, second = values(a, kind), values(b, kind)
        found = operation(first, second)
        bits: Bits
        if kind == "bf16":
            bits = (found.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
        else:
            bits = found.view(UNSIGNED[WIDTHS[kind]])
        same = first == second
        return np.where(same, of_equal(a, b), bits) if np.count_nonzero(same) else bits

    return call


def _change_sign(spelling: Spelling) -> Pure:
    """abs and neg; NaN becomes canonical but in f64."""
    ftz = spelling.has("ftz")
    kind = spelling.must(*_KINDS)
    element = PACKED.get(kind, kind)
    if ftz and element not in ("f32", "f16"):
        raise Unknown
    sign = _sign(element)
    negates = spelling.name == "neg"

    def call(a: Bits) -> Bits:
        given = flushed(a, element) if ftz else a
        changed = given ^ sign if negates else given & ~sign
        return changed if element == "f64" else _with_canonical_nan(changed, element)

    return Pure((kind,), (kind,), on_elements(kind, call))


def _copysign(spelling: Spelling) -> Pure:
    """The sign of a with the size of b."""
    kind = spelling.must("f32", "f64")
    sign = _sign(kind)
    return Pure((kind,), (kind, kind), lambda a, b: ((a & sign) | (b & ~sign),))


_PROPERTIES: dict[str, Function] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda a: ~np.isnan(a),
    "notanumber": np.isnan,
    "normal": lambda a: np.isfinite(a) & ((np.abs(a) >= np.finfo(a.dtype).tiny) | (a == 0)),
    "subnormal": lambda a: (np.abs(a) < np.finfo(a.dtype).tiny) & (a != 0),
}


def _test(spelling: Spelling) -> Pure:
    function = _PROPERTIES[spelling.must(*_PROPERTIES)]
    kind = spelling.must("f32", "f64")
    return Pure(("pred",), (kind,), lambda a: (function(a.view(FLOATS[kind])),))


MAKERS = {
    **dict.fromkeys(("min", "max"), _extreme),
    **dict.fromkeys(("abs", "neg"), _change_sign),
    "copysign": _copysign,
    "testp": _test,
}
