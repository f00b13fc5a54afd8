"""k.integer, and the operators of integers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from nvbackend.intrinsics.row.types import s32, s64, u32, u64
from tests.gpu.differential.case import Case
from tests.gpu.differential.floats import INTEGERS
from tests.gpu.differential.rounding import Array


def _u(a: Array) -> Array:
    return a.view(f"u{a.itemsize}")


def _bits_in(a: Array) -> Array:
    return np.unpackbits(_u(a).reshape(-1, 1).view(np.uint8), axis=1, bitorder="little")


def _reversed(a: Array) -> Array:
    return np.packbits(_bits_in(a)[:, ::-1], axis=1, bitorder="little").view(a.dtype).ravel()


def _leading(a: Array) -> Array:
    bits = _bits_in(a)[:, ::-1]
    return np.where(bits.any(axis=1), bits.argmax(axis=1), bits.shape[1])


def _first_set(a: Array) -> Array:
    bits = _bits_in(a)
    return np.where(bits.any(axis=1), bits.argmax(axis=1) + 1, 0)


def _high(a: Array, b: Array) -> Array:
    """The upper half of a product, by parts of 32 bits; of signed numbers corrected as two's complement asks."""
    if a.itemsize == 4:
        return (a.astype(f"{a.dtype.kind}8") * b.astype(f"{a.dtype.kind}8") >> 32).astype(a.dtype)
    x, y, low = _u(a), _u(b), np.uint64(0xFFFFFFFF)
    s = np.uint64(32)
    x1, x0, y1, y0 = x >> s, x & low, y >> s, y & low
    middle = x1 * y0 + (x0 * y0 >> s)
    other = x0 * y1 + (middle & low)
    high = x1 * y1 + (middle >> s) + (other >> s)
    if a.dtype.kind == "i":
        high = high - np.where(a < 0, y, np.uint64(0)) - np.where(b < 0, x, np.uint64(0))
    return high.view(a.dtype)


def _bytes_dot(a: Array, b: Array, c: Array) -> Array:
    x, y = (v.view(f"{v.dtype.kind}1").reshape(-1, 4).astype(np.int64) for v in (a, b))
    return (c.astype(np.int64) + (x * y).sum(axis=1)).astype(np.uint64).astype(np.uint32).view(c.dtype)


def _halves_dot(half: str) -> Callable[..., Array]:
    def wanted(a: Array, b: Array, c: Array) -> Array:
        x = a.view(f"{a.dtype.kind}2").reshape(-1, 2).astype(np.int64)
        y = (
            b.view(f"{b.dtype.kind}1").reshape(-1, 4)[:, 2:]
            if half == "hi"
            else b.view(f"{b.dtype.kind}1").reshape(-1, 4)[:, :2]
        )
        return (
            (c.astype(np.int64) + (x * y.astype(np.int64)).sum(axis=1))
            .astype(np.uint64)
            .astype(np.uint32)
            .view(c.dtype)
        )

    return wanted


def _funnel(direction: str, clamp: bool) -> Callable[..., Array]:
    def wanted(low: Array, high: Array, by: Array) -> Array:
        whole = high.astype(np.uint64) << np.uint64(32) | low
        by = np.minimum(by, 32).astype(np.uint64) if clamp else (by & 31).astype(np.uint64)
        moved = whole << by >> np.uint64(32) if direction == "l" else whole >> by
        return moved.astype(np.uint32)

    return wanted


def _field(a: Array, start: Array, length: Array) -> Array:
    """bfe.u32 with places that wrap at 256."""
    first, count = (v.astype(np.uint64) & np.uint64(255) for v in (start, length))
    shifted = np.where(first < 32, a.astype(np.uint64) >> np.minimum(first, 32), 0).astype(np.uint64)
    return (shifted & ((np.uint64(1) << np.minimum(count, 32)) - np.uint64(1))).astype(np.uint32)


def _inserted(a: Array, base: Array, start: Array, length: Array) -> Array:
    first, count = (v.astype(np.uint64) & np.uint64(255) for v in (start, length))
    mask = ((np.uint64(1) << np.minimum(count, 32)) - np.uint64(1)) << np.minimum(first, 32)
    mask &= np.uint64(0xFFFFFFFF)
    moved = (a.astype(np.uint64) << np.minimum(first, 32)) & mask
    return ((base & ~mask) | moved).astype(np.uint32)


def integers() -> Iterator[Case]:
    for kind in INTEGERS:
        one, two = (kind,), (kind, kind)
        counted = {"popc": lambda a: _bits_in(a).sum(axis=1), "clz": _leading, "ffs": _first_set}
        for name, wanted in counted.items():
            yield Case(f"integer.{name}", "", one, s32, lambda k, a, name=name: getattr(k.integer, name)(a), wanted)
        yield Case("integer.brev", "", one, kind, lambda k, a: k.integer.brev(a), _reversed)
        yield Case("integer.mulhi", "", two, kind, lambda k, a, b: k.integer.mulhi(a, b), _high)
        yield Case(
            *("integer.sad", "", (kind,) * 3, kind),
            lambda k, a, b, c: k.integer.sad(a, b, c),
            lambda a, b, c: np.where(a > b, _u(a) - _u(b), _u(b) - _u(a)).view(a.dtype) + c,
        )
        for sign, emit, wanted in (
            ("+", lambda a, b: a + b, np.add),
            ("-", lambda a, b: a - b, np.subtract),
            ("*", lambda a, b: a * b, np.multiply),
            ("&", lambda a, b: a & b, np.bitwise_and),
            ("|", lambda a, b: a | b, np.bitwise_or),
            ("^", lambda a, b: a ^ b, np.bitwise_xor),
            ("//", lambda a, b: a // b, lambda a, b: _divided(a, b, np.floor_divide)),
            ("%", lambda a, b: a % b, lambda a, b: _divided(a, b, np.remainder)),
            ("<<", lambda a, b: a << b, _left),
            (">>", lambda a, b: a >> b, _right),
        ):
            yield Case(f"operator {sign}", "", two, kind, lambda k, a, b, emit=emit: emit(a, b), wanted)
        yield Case("operator ~", "", one, kind, lambda k, a: ~a, np.invert)
        yield Case("operator neg", "", one, kind, lambda k, a: -a, np.negative)
    yield from _products()
    yield from _words()


def _products() -> Iterator[Case]:
    for kind in (s32, u32):
        wide = s64 if kind is s32 else u64
        yield Case(
            *("integer.mul_wide", "", (kind, kind), wide),
            lambda k, a, b: k.integer.mul_wide(a, b),
            lambda a, b: a.astype(f"{a.dtype.kind}8") * b,
        )
        yield Case(
            *("integer.mad_wide", "", (kind, kind, wide), wide),
            lambda k, a, b, c: k.integer.mad_wide(a, b, c),
            lambda a, b, c: a.astype(c.dtype) * b + c,
        )
        yield Case("integer.dp4a", "", (kind,) * 3, kind, lambda k, a, b, c: k.integer.dp4a(a, b, c), _bytes_dot)
        for half in ("lo", "hi"):
            yield Case(
                *("integer.dp2a", half, (kind,) * 3, kind),
                lambda k, a, b, c, half=half: k.integer.dp2a(a, b, c, half=half),
                _halves_dot(half),
            )
    for name, operation in (("add_sat", np.add), ("sub_sat", np.subtract)):
        yield Case(
            *(f"integer.{name}", "", (s32, s32), s32),
            lambda k, a, b, name=name: getattr(k.integer, name)(a, b),
            lambda a, b, operation=operation: np.clip(
                operation(a.astype(np.int64), b.astype(np.int64)), -(1 << 31), (1 << 31) - 1
            ).astype(np.int32),
        )


def _words() -> Iterator[Case]:
    three = (u32, u32, u32)
    for direction in "lr":
        for clamp in (False, True):
            yield Case(
                *("integer.funnel", f"{direction}, clamp={clamp}", three, u32),
                lambda k, a, b, c, d=direction, clamp=clamp: k.integer.funnel(a, b, c, direction=d, clamp=clamp),
                _funnel(direction, clamp),
            )
    yield Case(
        *("integer.lop3", "(a & b) ^ c", three, u32),
        lambda k, a, b, c: k.integer.lop3(a, b, c, (0xF0 & 0xCC) ^ 0xAA),
        lambda a, b, c: a & b ^ c,
    )
    yield Case("integer.bfe", "", three, u32, lambda k, a, b, c: k.integer.bfe(a, b.to(s32), c.to(s32)), _field)
    yield Case(
        *("integer.bfi", "", three, u32),
        lambda k, a, b, c: k.integer.bfi(a, b, c.to(s32), (c >> 8).to(s32)),
        lambda a, b, c: _inserted(a, b, c, c >> 8),
    )
    for name, sign in (("add_carry", 1), ("sub_borrow", -1)):
        for part in (0, 1):
            yield Case(
                *(f"integer.{name}", "the carry" if part else "the sum", three, u32),
                lambda k, a, b, c, name=name, part=part: getattr(k.integer, name)(a, b, c & 1)[part],
                lambda a, b, c, sign=sign, part=part: _carried(a, b, c & 1, sign, part),
            )
    yield Case(
        *("math.permute_bytes", "", three, u32),
        lambda k, a, b, c: k.math.permute_bytes(a, b, c & 0x7777),
        _permuted,
    )


def _carried(a: Array, b: Array, c: Array, sign: int, part: int) -> Array:
    total = a.astype(np.int64) + sign * (b.astype(np.int64) + c)
    return ((total >> 32 & 1) if part else total & 0xFFFFFFFF).astype(np.uint32)


def _permuted(a: Array, b: Array, c: Array) -> Array:
    every = np.concatenate([v.reshape(-1, 1).view(np.uint8) for v in (a, b)], axis=1)
    places = np.stack([c >> shift & 7 for shift in (0, 4, 8, 12)], axis=1)
    return np.ascontiguousarray(np.take_along_axis(every, places.astype(np.int64), axis=1)).view(np.uint32).ravel()


def _divided(a: Array, b: Array, operation: Callable[..., Array]) -> Array:
    """By zero all ones; the least number by -1 is itself, and leaves 0."""
    with np.errstate(all="ignore"):
        return np.where(b == 0, np.array(-1).astype(a.dtype), operation(a, np.where(b == 0, 1, b).astype(a.dtype)))


def _left(a: Array, b: Array) -> Array:
    bits = 8 * a.itemsize
    by = np.minimum(_u(b), bits - 1)
    return np.where(_u(b) < bits, _u(a) << by.astype(_u(a).dtype), 0).astype(_u(a).dtype).view(a.dtype)


def _right(a: Array, b: Array) -> Array:
    bits = 8 * a.itemsize
    by = np.minimum(_u(b), bits - 1).astype(a.dtype)
    return a >> by if a.dtype.kind == "i" else np.where(_u(b) < bits, a >> by, 0).astype(a.dtype)
