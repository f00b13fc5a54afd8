"""Integers in parts of a register: dp2a, dp4a, add.u16x2, cvt.pack. PTX ISA 9.7.1 and 9.7.9 (cvt.pack)."""

from __future__ import annotations

import numpy as np

from nvbackend.simulator.scalar.pure import SIGNED, UNSIGNED, Bits, Pure, Spelling

_PACKED = {f"{kind}{bits}": bits for kind in "us" for bits in (2, 4, 8, 16)}
_WHOLE = 16
"""Two parts of so many bits fill the register."""


def _parts(a: Bits, kind: str, bits: int) -> Bits:
    """(..., parts) integers of a word."""
    view = (SIGNED if kind[0] == "s" else UNSIGNED)[bits]
    parts: Bits = a.view(view).reshape(*a.shape, -1).astype(np.int64)
    return parts


def _dot(spelling: Spelling) -> Pure:
    half = "" if spelling.name == "dp4a" else spelling.must("lo", "hi")
    first = spelling.must("u32", "s32")
    second = spelling.must("u32", "s32")
    total = "u32" if first == second == "u32" else "s32"
    chosen = {"": slice(None), "lo": slice(0, 2), "hi": slice(2, 4)}[half]

    def call(a: Bits, b: Bits, c: Bits) -> tuple[Bits]:
        products = _parts(a, first, 16 if half else 8) * _parts(b, second, 8)[..., chosen]
        return ((products.sum(axis=-1) + c).astype(np.uint32),)

    return Pure((total,), ("b32", "b32", total), call)


def _pairs(spelling: Spelling) -> Pure:
    kind = spelling.must("u16x2", "s16x2")

    def call(a: Bits, b: Bits) -> tuple[Bits]:
        return (np.add(a.view(np.uint16), b.view(np.uint16)).view(np.uint32),)

    return Pure((kind,), (kind, kind), call)


def _pack(spelling: Spelling) -> Pure:
    """cvt.pack: a and b clamped, b in the lowest bits, a above, then what c has."""
    spelling.must("pack")
    spelling.must("sat")
    kind = spelling.must(*_PACKED)
    spelling.must("s32")
    bits = _PACKED[kind]
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)
    shift, mask = np.uint32(bits), np.uint32((1 << bits) - 1)

    def call(a: Bits, b: Bits, *c: Bits) -> tuple[Bits]:
        upper, lower = (np.clip(one.view(np.int32), low, high).view(np.uint32) & mask for one in (a, b))
        found = (upper << shift) | lower
        return (found | (c[0] << np.uint32(2 * bits)) if c else found,)

    if bits == _WHOLE:
        return Pure(("u32",), ("s32", "s32"), call)
    spelling.must("b32")
    return Pure(("u32",), ("s32", "s32", "b32"), call)


MAKERS = {"dp4a": _dot, "dp2a": _dot, "add": _pairs, "cvt": _pack}
