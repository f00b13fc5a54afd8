"""Integers in parts of a register: dp2a, dp4a, add.u16x2, cvt.pack, vadd4. PTX ISA 9.7.1, 9.7.9, 9.7.17 (video)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nvbackend.simulator.scalar.pure import INTEGERS, SIGNED, UNSIGNED, Bits, Pure, Spelling, Unknown, limits, numbers

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
_SECOND: dict[str, Callable[[Bits, Bits], Bits]] = {"add": np.add, "min": np.minimum, "max": np.maximum}


def _video(spelling: Spelling) -> Pure:
    """vadd4 and its kin, of four bytes, two halves (vadd2) or whole words, without selectors."""
    function = _VIDEO[spelling.name.rstrip("24")]
    bits = {"4": 8, "2": 16}.get(spelling.name[-1], 32)
    to, first, second = (spelling.must("u32", "s32") for _ in range(3))
    saturates = spelling.has("sat")
    then = spelling.take(*(("add",) if bits < INTEGERS["u32"] else tuple(_SECOND)))
    if (then and saturates and bits < INTEGERS["u32"]) or (spelling.name == "vavrg"):
        raise Unknown
    low, high = limits(f"{to[0]}{bits}")

    def call(a: Bits, b: Bits, *c: Bits) -> tuple[Bits]:
        found = function(_parts(a, first, bits), _parts(b, second, bits))
        found = np.clip(found, low, high) if saturates else found
        if not then:
            return (found.astype(UNSIGNED[bits]).view(np.uint32)[..., 0],)
        if bits < INTEGERS["u32"]:
            return ((found.sum(axis=-1) + c[0]).astype(np.uint32),)
        return (_SECOND[then](numbers(found[..., 0].astype(np.uint32), to), numbers(c[0], to)).view(np.uint32),)

    takes_third = bits < INTEGERS["u32"] or then
    return Pure((to,), (first, second, *((to,) if takes_third else ())), call)


_OF_VIDEO = [f"{name}{parts}" for name in _VIDEO for parts in ("", "2", "4")]
MAKERS = dict.fromkeys(_OF_VIDEO, _video) | {"dp4a": _dot, "dp2a": _dot, "add": _pairs, "cvt": _pack}
