"""Comparisons and selections: setp, set, selp, slct. PTX ISA 9.7.6 and 9.7.7."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nvbackend.simulator.formats import FORMATS
from nvbackend.simulator.scalar.kinds import PACKED, WIDTHS, flushed, values
from nvbackend.simulator.scalar.pure import BYTES, INTEGERS, UNSIGNED, Bits, Call, Pure, Spelling, Unknown, numbers

Compare = Callable[[Bits, Bits], Bits]
_ORDERED: dict[str, Compare] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_UNSIGNED: dict[str, Compare] = {
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
}
_UNORDERED: dict[str, Compare] = {
    "equ": lambda a, b: ~((a < b) | (a > b)),
    "neu": np.not_equal,
    "ltu": lambda a, b: ~(a >= b),
    "leu": lambda a, b: ~(a > b),
    "gtu": lambda a, b: ~(a <= b),
    "geu": lambda a, b: ~(a < b),
    "num": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "nan": lambda a, b: np.isnan(a) | np.isnan(b),
}
_FLOATS: dict[str, Compare] = {**_ORDERED, "ne": lambda a, b: (a < b) | (a > b), **_UNORDERED}
BOOLEANS: dict[str, Compare] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
_WORDS = tuple(kind for kind, bits in (BYTES | INTEGERS).items() if bits > BYTES["b8"])


def comparison(name: str, kind: str, *, ftz: bool = False) -> Compare:
    """The comparison `name` of the bits of `kind`. Raises Unknown where it has none."""
    if kind in WIDTHS:
        compare = _known(_FLOATS, name)
        if ftz:
            return lambda a, b: compare(values(flushed(a, kind), kind), values(flushed(b, kind), kind))
        return lambda a, b: compare(values(a, kind), values(b, kind))
    names = _ORDERED
    if kind[0] == "u":
        names = _ORDERED | _UNSIGNED
    if kind[0] == "b":
        names = {one: _ORDERED[one] for one in ("eq", "ne")}
    compare = _known(names, name)
    return (lambda a, b: compare(numbers(a, kind), numbers(b, kind))) if kind[0] == "s" else compare


def _known(comparisons: dict[str, Compare], name: str) -> Compare:
    if name not in comparisons:
        raise Unknown
    return comparisons[name]


_NAMES = (*_ORDERED, *_UNSIGNED, *_UNORDERED)


def _compared(spelling: Spelling, *, ftz: bool) -> str:
    """The type of what is compared; subnormal numbers are flushed in some only."""
    if ftz:
        return spelling.must("f32", "f16", "f16x2")
    return spelling.must(*_WORDS, *WIDTHS, "f16x2", "bf16x2")


def _writes(to: str, kind: str) -> bool:
    """Whether a comparison of `kind` can be written as `to`."""
    if kind in PACKED:
        return to in ("u32", "s32", kind)
    if kind in ("f16", "bf16"):
        return to not in ("f32", *PACKED) and (to, kind) != ("f16", "bf16")
    return to not in ("u16", "s16", *PACKED)


def _set(spelling: Spelling) -> Pure:
    """set: all ones, or 1.0, where the comparison holds."""
    name = spelling.must(*_NAMES)
    boolean = BOOLEANS.get(spelling.take(*BOOLEANS))
    ftz = spelling.has("ftz")
    to = spelling.must("u32", "s32", "u16", "s16", "f32", "f16", "bf16", "f16x2", "bf16x2")
    kind = _compared(spelling, ftz=ftz)
    if not _writes(to, kind):
        raise Unknown
    compare = comparison(name, PACKED.get(kind, kind), ftz=ftz)
    operands = (kind, kind, *(("pred",) if boolean is not None else ()))
    element = PACKED.get(to) or (to if kind not in PACKED else "u16")
    true = ones_of(element)

    def call(a: Bits, b: Bits, *c: Bits) -> tuple[Bits]:
        given = (one.view(np.uint16) for one in (a, b)) if kind in PACKED else (a, b)
        found = compare(*given)
        if boolean is not None:
            found = boolean(found, np.repeat(c[0], 2, axis=-1) if kind in PACKED else c[0])
        codes = np.where(found, true, true.dtype.type(0))
        return (codes.view(np.uint32) if kind in PACKED else codes,)

    return Pure((to,), operands, call)


def ones_of(kind: str) -> Bits:
    """What set writes for true: 1.0 of a float, all ones of an integer."""
    if kind in WIDTHS:
        form = FORMATS[kind]
        one: Bits = np.asarray(form.bias << form.mantissa, form.dtype)
        return one
    return np.asarray((1 << INTEGERS[kind]) - 1, UNSIGNED[INTEGERS[kind]])


def _setp(spelling: Spelling) -> Pure:
    """setp.CmpOp{.BoolOp}{.ftz}.type p|q, a, b{, c}; the second predicate is that of the opposite comparison."""
    name = spelling.must(*_NAMES)
    boolean = BOOLEANS.get(spelling.take(*BOOLEANS))
    ftz = spelling.has("ftz")
    kind = _compared(spelling, ftz=ftz)
    compare = comparison(name, PACKED.get(kind, kind), ftz=ftz)
    operands = (kind, kind, *(("pred",) if boolean is not None else ()))
    call = _pair_of_halves(compare, boolean) if kind in PACKED else _opposites(compare, boolean)
    return Pure(("pred", "pred"), operands, call)


def _opposites(compare: Compare, boolean: Compare | None) -> Call:
    if boolean is None:

        def call(a: Bits, b: Bits) -> tuple[Bits, Bits]:
            found = compare(a, b)
            return found, ~found

        return call

    def combined(a: Bits, b: Bits, c: Bits) -> tuple[Bits, Bits]:
        found = compare(a, b)
        return boolean(found, c), boolean(~found, c)

    return combined


def _pair_of_halves(compare: Compare, boolean: Compare | None) -> Call:
    """The comparisons of the lower halves and of the upper ones."""

    def call(a: Bits, b: Bits, *c: Bits) -> tuple[Bits, Bits]:
        found = compare(a.view(np.uint16), b.view(np.uint16))
        low, high = found[..., 0::2], found[..., 1::2]
        return (boolean(low, *c), boolean(high, *c)) if boolean is not None else (low.copy(), high.copy())

    return call


def _select(a: Bits, b: Bits, chooser: Bits) -> tuple[Bits]:
    return (np.where(chooser, a, b),)


def _selp(spelling: Spelling) -> Pure:
    kind = spelling.must(*_WORDS, "f32", "f64")
    return Pure((kind,), (kind, kind, "pred"), _select)


def _slct(spelling: Spelling) -> Pure:
    """slct: a where c is at least 0, which NaN is not."""
    ftz = spelling.has("ftz")
    kind = spelling.must(*_WORDS, "f32", "f64")
    chooser = spelling.must(*(("f32",) if ftz else ("s32", "f32")))

    def call(a: Bits, b: Bits, c: Bits) -> tuple[Bits]:
        if chooser == "s32":
            return (np.where(c.view(np.int32) >= 0, a, b),)
        return (np.where(values(flushed(c, "f32") if ftz else c, "f32") >= 0, a, b),)

    return Pure((kind,), (kind, kind, chooser), call)


MAKERS = {"set": _set, "setp": _setp, "selp": _selp, "slct": _slct}
