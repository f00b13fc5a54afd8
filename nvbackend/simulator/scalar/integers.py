"""Integer arithmetic. PTX ISA 9.7.1."""

from __future__ import annotations

import numpy as np

from nvbackend.simulator.scalar.pure import (
    INTEGERS,
    SIGNED,
    UNSIGNED,
    Bits,
    Call,
    Pure,
    Spelling,
    Unknown,
    bits_of,
    limits,
    numbers,
)

_WORDS = tuple(kind for kind, bits in INTEGERS.items() if bits >= 16)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def _add_or_subtract(spelling: Spelling) -> Pure:
    is_sum = spelling.name == "add"
    if spelling.has("sat"):
        kind = spelling.must(*(("s32", "u32", "u16x2", "s16x2") if is_sum else ("s32",)))
        return Pure((kind,), (kind, kind), _saturating(kind, is_sum=is_sum))
    kind = spelling.must(*_WORDS)
    call: Call = (lambda a, b: (a + b,)) if is_sum else (lambda a, b: (a - b,))
    return Pure((kind,), (kind, kind), call)


def _saturating(kind: str, *, is_sum: bool) -> Call:
    operation = np.add if is_sum else np.subtract
    element = kind.removesuffix("x2")
    view = (SIGNED if kind[0] == "s" else UNSIGNED)[INTEGERS[element]]
    low, high = limits(element)

    def call(a: Bits, b: Bits) -> tuple[Bits]:
        wide = operation(a.view(view), b.view(view), dtype=np.int64)
        return (np.clip(wide, low, high).astype(view).view(np.uint32),)

    return call


def product_high(a: Bits, b: Bits, kind: str) -> Bits:
    """The upper half of the product of the numbers."""
    bits = 8 * a.dtype.itemsize
    if bits < INTEGERS["u64"]:
        wide = (SIGNED if kind[0] == "s" else UNSIGNED)[2 * bits]
        product: Bits = numbers(a, kind).astype(wide) * numbers(b, kind).astype(wide)
        upper: Bits = np.right_shift(product, wide(bits)).astype(UNSIGNED[bits])
        return upper
    low = (a & _LOW) * (b & _LOW)
    cross = (a >> _HALF) * (b & _LOW) + (low >> _HALF)
    other = (a & _LOW) * (b >> _HALF) + (cross & _LOW)
    high: Bits = (a >> _HALF) * (b >> _HALF) + (cross >> _HALF) + (other >> _HALF)
    if kind[0] == "s":
        high -= np.where(a.view(np.int64) < 0, b, 0) + np.where(b.view(np.int64) < 0, a, 0)
    return high


def product_wide(a: Bits, b: Bits, kind: str) -> Bits:
    """The whole product, in twice the bits."""
    wide = (SIGNED if kind[0] == "s" else UNSIGNED)[16 * a.dtype.itemsize]
    return bits_of(np.multiply(numbers(a, kind).astype(wide), numbers(b, kind).astype(wide)))


def _multiply(spelling: Spelling) -> Pure:
    part = spelling.must("lo", "hi", "wide")
    kind = spelling.must(*_WORDS)
    if part == "wide":
        wide = _twice(kind)
        return Pure((wide,), (kind, kind), lambda a, b: (product_wide(a, b, kind),))
    if part == "hi":
        return Pure((kind,), (kind, kind), lambda a, b: (product_high(a, b, kind),))
    return Pure((kind,), (kind, kind), lambda a, b: (a * b,))


def _multiply_add(spelling: Spelling) -> Pure:
    part = spelling.must("lo", "hi", "wide")
    if part == "hi" and spelling.has("sat"):
        kind = spelling.must("s32")
        return Pure((kind,), (kind,) * 3, _saturating_multiply_add)
    kind = spelling.must(*_WORDS)
    if part == "wide":
        wide = _twice(kind)
        return Pure((wide,), (kind, kind, wide), lambda a, b, c: (product_wide(a, b, kind) + c,))
    if part == "hi":
        return Pure((kind,), (kind,) * 3, lambda a, b, c: (product_high(a, b, kind) + c,))
    return Pure((kind,), (kind,) * 3, lambda a, b, c: (a * b + c,))


def _twice(kind: str) -> str:
    """The type of twice the bits."""
    wide = f"{kind[0]}{2 * INTEGERS[kind]}"
    if wide not in INTEGERS:
        raise Unknown
    return wide


def _saturating_multiply_add(a: Bits, b: Bits, c: Bits) -> tuple[Bits]:
    high = product_high(a, b, "s32").view(np.int32).astype(np.int64) + c.view(np.int32)
    return (np.clip(high, -(1 << 31), (1 << 31) - 1).astype(np.int32).view(np.uint32),)


def _product_24(a: Bits, b: Bits, part: str, kind: str) -> Bits:
    """Bits 31 to 0 or 47 to 16 of the product of the lower 24 bits."""
    if kind == "s32":
        narrow = [(one << np.uint32(8)).view(np.int32).astype(np.int64) >> 8 for one in (a, b)]
    else:
        narrow = [(one & np.uint32(0xFFFFFF)).astype(np.int64) for one in (a, b)]
    return ((narrow[0] * narrow[1]) >> (0 if part == "lo" else 16)).astype(np.uint32)


def _multiply_24(spelling: Spelling) -> Pure:
    part = spelling.must("lo", "hi")
    if spelling.name == "mad24" and part == "hi" and spelling.has("sat"):
        kind = spelling.must("s32")

        def saturating(a: Bits, b: Bits, c: Bits) -> tuple[Bits]:
            wide = _product_24(a, b, part, kind).view(np.int32).astype(np.int64) + c.view(np.int32)
            return (np.clip(wide, -(1 << 31), (1 << 31) - 1).astype(np.int32).view(np.uint32),)

        return Pure((kind,), (kind,) * 3, saturating)
    kind = spelling.must("u32", "s32")
    if spelling.name == "mad24":
        return Pure((kind,), (kind,) * 3, lambda a, b, c: (_product_24(a, b, part, kind) + c,))
    return Pure((kind,), (kind,) * 2, lambda a, b: (_product_24(a, b, part, kind),))


def _difference(spelling: Spelling) -> Pure:
    """sad: c + |a - b|."""
    kind = spelling.must(*_WORDS)

    def call(a: Bits, b: Bits, c: Bits) -> tuple[Bits]:
        return (c + np.where(numbers(a, kind) < numbers(b, kind), b - a, a - b),)

    return Pure((kind,), (kind,) * 3, call)


def _divide(spelling: Spelling) -> Pure:
    kind = spelling.must(*_WORDS)
    rest = spelling.name == "rem"
    return Pure((kind,), (kind, kind), lambda a, b: (quotient(a, b, kind, rest=rest),))


def quotient(a: Bits, b: Bits, kind: str, *, rest: bool) -> Bits:
    """a / b cut off toward zero, or what is left. By zero it is all ones, and a is left.

    PTX leaves it unspecified; so does the hardware answer.
    """
    x, y = numbers(a, kind), numbers(b, kind)
    if kind[0] == "s":
        sizes = [np.abs(one).view(a.dtype) for one in (x, y)]
        if rest:
            size = np.remainder(sizes[0], np.where(b == 0, 1, sizes[1]).astype(a.dtype))
            return np.where(b == 0, a, np.where(x < 0, -size, size)).astype(a.dtype)
        size = sizes[0] // np.where(b == 0, 1, sizes[1]).astype(a.dtype)
        return np.where(b == 0, ~np.zeros_like(a), np.where((x < 0) != (y < 0), -size, size)).astype(a.dtype)
    safe = np.where(b == 0, 1, b).astype(a.dtype)
    return np.where(b == 0, a, a % safe) if rest else np.where(b == 0, ~np.zeros_like(a), a // safe)


def _absolute(spelling: Spelling) -> Pure:
    kind = spelling.must("s16", "s32", "s64")
    return Pure((kind,), (kind,), lambda a: (bits_of(np.abs(numbers(a, kind))),))


def _negate(spelling: Spelling) -> Pure:
    kind = spelling.must("s16", "s32", "s64")
    return Pure((kind,), (kind,), lambda a: (bits_of(np.negative(numbers(a, kind))),))


def _extreme(spelling: Spelling) -> Pure:
    operation = np.minimum if spelling.name == "min" else np.maximum
    relu = spelling.has("relu")
    kind = spelling.must(*(("s16x2", "s32") if relu else (*_WORDS, "u16x2", "s16x2")))
    relu = relu or (kind in ("s16x2", "s32") and spelling.has("relu"))
    view = (SIGNED if kind[0] == "s" else UNSIGNED)[16 if kind.endswith("x2") else INTEGERS[kind]]
    whole = UNSIGNED[32 if kind.endswith("x2") else INTEGERS[kind]]

    def call(a: Bits, b: Bits) -> tuple[Bits]:
        found = operation(a.view(view), b.view(view))
        return ((np.maximum(found, 0) if relu else found).view(whole),)

    return Pure((kind,), (kind, kind), call)


MAKERS = {
    **dict.fromkeys(("add", "sub"), _add_or_subtract),
    "mul": _multiply,
    "mad": _multiply_add,
    **dict.fromkeys(("mul24", "mad24"), _multiply_24),
    "sad": _difference,
    **dict.fromkeys(("div", "rem"), _divide),
    "abs": _absolute,
    "neg": _negate,
    **dict.fromkeys(("min", "max"), _extreme),
}
