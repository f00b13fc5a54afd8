"""Integers in parts of a register: dp2a, dp4a, add.u16x2, cvt.pack, vadd4. PTX ISA 9.7.1, 9.7.9, 9.7.17 (video)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nvbackend.simulator.scalar.pure import SIGNED, UNSIGNED, Bits, Pure, Spelling, limits, numbers

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


_VIDEO: dict[str, Callable[[Bits, Bits], Bits]] = {
    "vadd": np.add,
    "vsub": np.subtract,
    "vavrg": lambda a, b: (a + b + (a + b >= 0)) >> 1,
    "vabsdiff": lambda a, b: np.abs(a - b),
    "vmin": np.minimum,
    "vmax": np.maximum,
}


def _video_of_parts(spelling: Spelling) -> Pure:
    """vadd4 and its kin, of four bytes or two halves (vadd2), without selectors."""
    function = _VIDEO[spelling.name.rstrip("24")]
    bits = {"4": 8, "2": 16}[spelling.name[-1]]
    to, first, second = (spelling.must("u32", "s32") for _ in range(3))
    saturates = spelling.has("sat")
    adds = not saturates and spelling.has("add")
    low, high = limits(f"{to[0]}{bits}")

    def call(a: Bits, b: Bits, c: Bits) -> tuple[Bits]:
        found = function(_parts(a, first, bits), _parts(b, second, bits))
        if adds:
            return ((found.sum(axis=-1) + c).astype(np.uint32),)
        found = np.clip(found, low, high) if saturates else found
        return (found.astype(UNSIGNED[bits]).view(np.uint32)[..., 0],)

    return Pure((to,), (first, second, to), call)


def _video(spelling: Spelling) -> Pure:
    """vadd and its kin, of whole words, without selectors.

    No chip since sm_50 has them: ptxas makes them of 64-bit arithmetic, on every chip alike. That is not what PTX ISA
    says (docs/divergences.md): a saturated u32 is not clamped from above, and the sums that min and max take have lost
    what is above 32 bits.
    """
    name = spelling.name
    function = _VIDEO[name]
    to, first, second = (spelling.must("u32", "s32") for _ in range(3))
    saturates = spelling.has("sat")
    then = spelling.take("add", "min", "max")
    is_cut = name in ("vadd", "vsub") or (saturates and to == "s32")

    def call(a: Bits, b: Bits, *c: Bits) -> tuple[Bits]:
        found = function(numbers(a, first).astype(np.int64), numbers(b, second).astype(np.int64))
        if saturates:
            found = np.maximum(found, 0) if to == "u32" else np.clip(found, *limits(to))
        if then == "add":
            return (found.astype(np.uint32) + c[0],)
        if then:
            wide = found.astype(np.int32).astype(np.int64) if is_cut else found
            third = numbers(c[0], to).astype(np.int64)
            if to == "u32":
                wide, third = wide.view(np.uint64), third.view(np.uint64)
            found = np.where(wide > third if then == "max" else wide < third, wide, third)
        return (found.astype(np.uint32),)

    return Pure((to,), (first, second, *((to,) if then else ())), call)


_PARTED = [f"{name}{parts}" for name in _VIDEO for parts in "24"]
_WORDS = [name for name in _VIDEO if name != "vavrg"]
MAKERS = {
    **dict.fromkeys(_PARTED, _video_of_parts),
    **dict.fromkeys(_WORDS, _video),
    "dp4a": _dot,
    "dp2a": _dot,
    "add": _pairs,
    "cvt": _pack,
}
