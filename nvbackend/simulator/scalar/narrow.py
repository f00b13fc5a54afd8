"""Conversions from and to narrow floats, packed, clamped and scaled: cvt. PTX ISA 9.7.9 (cvt)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from nvbackend.simulator.formats import FORMATS
from nvbackend.simulator.scalar.kinds import wide_values
from nvbackend.simulator.scalar.pure import UNSIGNED, Bits, Pure, Spelling, Unknown

_HALVES = {"f16x2": "f16", "bf16x2": "bf16"}
_NARROW = tuple(f"{name}x2" for name in ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1"))
_FOURS = {f"{name}x4": name for name in ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")}
_SCALED = "scaled::n2::ue8m0"
_FIXED = "s2f6x2"
_TF32, _HALF_OF_TF32 = np.uint32(1 << 13), np.uint32(1 << 12)
"""The last bit of a tf32, and half of it."""
_FRACTION = 64.0
"""The numbers of s2f6 are whole multiples of 1 / 64."""
Encode = Callable[[Bits, "Bits | None"], Bits]


class _Modifiers:
    """The modifiers before the types, which other tools write in several orders."""

    def __init__(self, spelling: Spelling) -> None:
        self.rounding = spelling.must("rn", "rz", "rna", "rs", "rp")
        found = set()
        while one := spelling.take("relu", "satfinite", _SCALED):
            if one in found:
                raise Unknown
            found.add(one)
        self.relu, self.satfinite, self.scaled = (one in found for one in ("relu", "satfinite", _SCALED))

    def allow(self, roundings: Sequence[str], *, relu: bool = True, satfinite: bool | None = None) -> None:
        """Raises Unknown for another rounding, a relu that there is none of, or unless satfinite is as it must be."""
        if self.rounding not in roundings or (self.relu and not relu):
            raise Unknown
        if satfinite is not None and self.satfinite != satfinite:
            raise Unknown

    def encoder(self, name: str) -> Encode:
        """Values, and random bits for rs, as codes of a format."""
        form = FORMATS[name]
        sign = form.dtype.type(form.sign << form.unused)

        def encode(values: Bits, random: Bits | None = None) -> Bits:
            codes = form.encode(values, self.rounding, saturate=self.satfinite, random=random)
            return np.where(codes & sign, codes.dtype.type(0), codes) if self.relu else codes

        return encode


def _cvt(spelling: Spelling) -> Pure:
    modifiers = _Modifiers(spelling)
    to = spelling.must("f16", "bf16", "tf32", *_HALVES, *_NARROW, *_FOURS, "ue8m0x2", _FIXED)
    source = spelling.must("f32", *_HALVES, *_NARROW, "ue8m0x2", _FIXED)
    if modifiers.scaled and _FIXED not in (to, source) and not (to == "bf16x2" and source in _NARROW):
        raise Unknown
    if to == _FIXED:
        return _to_fixed(modifiers, source)
    if source not in ("f32", *_HALVES):
        return _from_narrow(modifiers, to, source)
    if to in ("f16", "bf16", "tf32"):
        return _single(modifiers, to, source)
    if to in _FOURS:
        return _four(modifiers, to, source)
    return _two(modifiers, to, source)


def _single(modifiers: _Modifiers, to: str, source: str) -> Pure:
    """One f32 to f16, bf16 or tf32."""
    if source != "f32":
        raise Unknown
    modifiers.allow(("rn", "rz", "rna") if to == "tf32" else ("rn", "rz"), relu=modifiers.rounding != "rna")
    if modifiers.rounding == "rna":
        return Pure((to,), ("f32",), lambda a: (_away_from_zero(a, satfinite=modifiers.satfinite),))
    encode = modifiers.encoder(to)
    return Pure((to,), ("f32",), lambda a: (encode(wide_values(a, "f32"), None),))


def _away_from_zero(a: Bits, *, satfinite: bool) -> Bits:
    """cvt.rna.tf32 as ptxas makes it on every chip: half of the last bit added, and cut. A NaN may become infinity."""
    finite = np.abs(a.view(np.float32)) < np.inf
    found = (a + finite * _HALF_OF_TF32) & ~(_TF32 - np.uint32(1))
    if satfinite:
        found -= ~(np.abs(found.view(np.float32)) < np.inf) * _TF32
    return found


def _two(modifiers: _Modifiers, to: str, source: str) -> Pure:
    """Two numbers, each an f32, or both in one register; the first in the upper half."""
    if to in _HALVES:
        modifiers.allow(("rn", "rz", "rs"))
        if source != "f32":
            raise Unknown
    elif to == "ue8m0x2":
        modifiers.allow(("rz", "rp"), relu=False)
        if source == "f16x2":
            raise Unknown
    else:
        modifiers.allow(("rn",), satfinite=True)
    name = _HALVES.get(to) or to.removesuffix("x2")
    encode, width = modifiers.encoder(name), _place(name)
    if source in _HALVES:
        return Pure((to,), (source,), lambda a: (joined([encode(one, None) for one in _both(a, source)], width),))
    if modifiers.rounding != "rs":

        def call(a: Bits, b: Bits) -> tuple[Bits]:
            return (joined([encode(wide_values(one, "f32"), None) for one in (a, b)], width),)

        return Pure((to,), ("f32", "f32"), call)
    count = FORMATS["f32"].mantissa - FORMATS[name].mantissa

    def randomly(a: Bits, b: Bits, random: Bits) -> tuple[Bits]:
        bits = [_on_top(one, count) for one in (random >> np.uint32(16), random)]
        values = (wide_values(one, "f32") for one in (a, b))
        return (joined([encode(*one) for one in zip(values, bits, strict=True)], width),)

    return Pure((to,), ("f32", "f32", "b32"), randomly)


def _four(modifiers: _Modifiers, to: str, source: str) -> Pure:
    """Four f32 rounded by random bits: two numbers share 16 of them."""
    modifiers.allow(("rs",), satfinite=True)
    if source != "f32":
        raise Unknown
    name = _FOURS[to]
    encode, width = modifiers.encoder(name), _place(name)

    def call(a: Bits, b: Bits, e: Bits, f: Bits, random: Bits) -> tuple[Bits]:
        if name == "e2m1":
            byte, low, high = np.uint32(0xFF), random & np.uint32(0xFFFF), random >> np.uint32(16)
            upper = (high & ~byte) | (low >> np.uint32(8))
            lower = ((high & byte) << np.uint32(8)) | (low & byte)
        else:
            upper, lower = random >> np.uint32(16), random
        bits = [_on_top(one, 16) for one in (upper, lower)]
        values = [wide_values(one, "f32") for one in (a, b, e, f)]
        return (joined([encode(one, bits[place // 2]) for place, one in enumerate(values)], width),)

    return Pure((to,), ("f32",) * 4 + ("b32",), call)


def _on_top(random: Bits, count: int) -> Bits:
    """The lowest `count` bits as the highest of 64."""
    return random.astype(np.uint64) << np.uint64(64 - count)


def _from_narrow(modifiers: _Modifiers, to: str, source: str) -> Pure:
    """Two narrow numbers to f16x2 or bf16x2; to bf16x2 times a power of two each."""
    if to not in _HALVES or (to == "f16x2" and (modifiers.satfinite or source in ("ue8m0x2", _FIXED))):
        raise Unknown
    modifiers.allow(("rn",), relu=source != "ue8m0x2", satfinite=False if source == "ue8m0x2" else None)
    encode = modifiers.encoder(_HALVES[to])

    def call(a: Bits, *scale: Bits) -> tuple[Bits]:
        values = _both(a, source)
        if scale:
            values = [one * factor for one, factor in zip(values, _both(scale[0], "ue8m0x2"), strict=True)]
        return (joined([encode(one, None) for one in values], 16),)

    return Pure((to,), (source, "b16") if modifiers.scaled else (source,), call)


def _to_fixed(modifiers: _Modifiers, source: str) -> Pure:
    """To two s2f6, each divided by a power of two before."""
    modifiers.allow(("rn",), satfinite=True)
    if source not in ("f32", "bf16x2"):
        raise Unknown
    count = 2 if source == "f32" else 1

    def call(*given: Bits) -> tuple[Bits]:
        values = _both(given[0], source) if count == 1 else [wide_values(one, "f32") for one in given[:2]]
        if modifiers.scaled:
            values = [one / factor for one, factor in zip(values, _both(given[count], "ue8m0x2"), strict=True)]
        return (joined([_fixed(one, relu=modifiers.relu) for one in values], 8),)

    return Pure((_FIXED,), (source,) * count + (("b16",) if modifiers.scaled else ()), call)


def _fixed(values: Bits, *, relu: bool) -> Bits:
    clamped = np.clip(np.rint(values * _FRACTION), 0 if relu else -128, 127)
    return np.where(np.isnan(values), 127, clamped).astype(np.int8).view(np.uint8)


def _place(name: str) -> int:
    """The bits that a number takes in a packed register."""
    return FORMATS[name].storage


def _both(a: Bits, kind: str) -> list[Bits]:
    """The values of the upper number and of the lower one."""
    name = kind.removesuffix("x2")
    width = 8 if name == "s2f6" else _place(name)
    low = a.dtype.type((1 << width) - 1)
    parts = [one.astype(UNSIGNED[max(width, 8)]) for one in ((a >> a.dtype.type(width)) & low, a & low)]
    if name == "s2f6":
        return [one.view(np.int8) / _FRACTION for one in parts]
    return [wide_values(one, name) for one in parts]


def joined(codes: Sequence[Bits], width: int) -> Bits:
    """Codes of `width` bits in one register, the first in the highest."""
    dtype = UNSIGNED[max(width * len(codes), 8)]
    found = codes[0].astype(dtype)
    for code in codes[1:]:
        found = (found << dtype(width)) | code
    return found.astype(dtype, copy=False)


MAKERS = {"cvt": _cvt}
