"""Operands where the rules of test_measured.py decide, many for each instruction that they concern."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from tests.simulator.scalar import kernel_text
from tests.simulator.scalar.spellings import Spelling

Words = np.ndarray[Any, Any]
_HALF_OF_ALL = kernel_text.LANES // 2
_FIELDS = {"f16": (10, 15), "bf16": (7, 15), "f32": (23, 31), "f64": (52, 63)}
"""The bits of a mantissa, and the place of the sign."""
_LEAST = {"f32": 2.0**-126, "f16": 2.0**-14}


def at_edges(spelling: Spelling, seed: int) -> Words | None:
    """(operands, lanes), half of them random; None for an instruction that no rule concerns."""
    opcode = spelling[0]
    for pattern, change in _CHANGES:
        if re.fullmatch(pattern, opcode):
            words: Words = kernel_text.operands([spelling], seed + 100)[0]
            change(opcode, words, np.random.default_rng([seed, *opcode.encode()]))
            return words
    return None


def _products(opcode: str, words: Words, rng: np.random.Generator) -> None:
    """Factors whose product is next to the least normal number; of an fma, an addend of the last bits."""
    kind = opcode.rpartition(".")[2]
    dtype, least = (np.float32, _LEAST["f32"]) if kind == "f32" else (np.float16, _LEAST["f16"])
    digits = _FIELDS[kind.removesuffix("x2")][0]
    step = 2.0**-digits
    k = rng.integers(1, 1 << (digits // 2), _HALF_OF_ALL)
    a = (1 + k * step) * rng.choice([-1.0, 1.0], _HALF_OF_ALL)  # (1 + k s)(1 - k s) = 1 - k^2 s^2
    b = least * (1 + rng.integers(-2, 3, _HALF_OF_ALL) * (rng.random(_HALF_OF_ALL) < 0.3) * step - k * step)
    scale = rng.integers(1, 8, _HALF_OF_ALL)
    pairs = [(a / 2.0**scale).astype(dtype), (b * 2.0**scale).astype(dtype)]
    size = np.dtype(dtype).itemsize
    for place, one in enumerate(pairs):
        bits = one.view(f"uint{8 * size}").astype(np.uint64)
        words[place, ::2] = bits | bits << np.uint64(16) if kind == "f16x2" else bits
    if opcode.startswith(("fma", "mad")):
        words[2, ::4] = 0


def _near_the_least_f32(_opcode: str, words: Words, rng: np.random.Generator) -> None:
    near = 2.0**-126 * (1 - rng.integers(0, 40, _HALF_OF_ALL) * 2.0**-27)
    near[::8] = 2.0**-126 * (1 - rng.random(len(near[::8])))
    words[0, ::2] = (near * rng.choice([-1.0, 1.0], _HALF_OF_ALL)).view(np.uint64)
    words[0, 1::8] = _nans("f64", rng, len(words[0, 1::8]))


def _large_divisors(opcode: str, words: Words, rng: np.random.Generator) -> None:
    """Quotients next to 2^-126."""
    digits = rng.integers(0, 4, (2, _HALF_OF_ALL)).astype(np.uint64)
    words[0, ::2] = np.uint64(0x7E800000) + digits[0]
    if opcode.startswith("div"):
        words[0, ::2] = np.uint64(0x00FFFFFF) - digits[0]
        words[1, ::2] = np.uint64(0x40000000) + digits[1]


def _nans(kind: str, rng: np.random.Generator, count: int) -> Words:
    digits, sign = _FIELDS[kind]
    infinity = ((1 << (sign - digits)) - 1) << digits
    payload = rng.integers(0, 1 << digits, count, dtype=np.uint64) >> rng.integers(0, digits, count, dtype=np.uint64)
    payload <<= rng.integers(0, 2, count, dtype=np.uint64)
    payload &= np.uint64((1 << digits) - 1)
    return payload | np.uint64(infinity) | (rng.integers(0, 2, count, dtype=np.uint64) << np.uint64(sign))


def _converted_nans(opcode: str, words: Words, rng: np.random.Generator) -> None:
    words[0, ::2] = _nans(opcode.rpartition(".")[2], rng, _HALF_OF_ALL)


def _subnormal(place: int, words: Words, rng: np.random.Generator) -> None:
    sign = rng.integers(0, 2, _HALF_OF_ALL, dtype=np.uint64) << np.uint64(31)
    words[place, ::2] = rng.integers(0, 1 << 24, _HALF_OF_ALL, dtype=np.uint64) | sign


def _out_of_bounds(_opcode: str, words: Words, rng: np.random.Generator) -> None:
    """NaNs of each half around 0x7ff7, in one operand of a lane or in several."""
    chosen = np.array([0x7FF7, 0x7FF7, 0x7FF7, 0xFFF7, 0x7FF6, 0x7FF8, 0x7FFF, 0x7F80, 0x7C00], np.uint64)
    for place in range(3):
        for shift in (0, 16):
            lanes = rng.random(kernel_text.LANES) < 0.4
            codes = chosen[rng.integers(0, len(chosen), kernel_text.LANES)] << np.uint64(shift)
            kept = words[place] & ~np.uint64(0xFFFF << shift)
            words[place] = np.where(lanes, kept | codes, words[place])


def _counts(opcode: str, words: Words, rng: np.random.Generator) -> None:
    chosen = np.array([0, 1, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 257, 320, 1 << 31, (1 << 32) - 1], np.uint64)
    first = 2 if opcode.startswith("bfi") else 1
    for place in (first, first + 1):
        words[place, ::2] = chosen[rng.integers(0, len(chosen), _HALF_OF_ALL)]
        words[place, 1::4] = rng.integers(0, 66, len(words[place, 1::4]), dtype=np.uint64)


def _limits(_opcode: str, words: Words, rng: np.random.Generator) -> None:
    """Words at the limits of s32 and u32, and thirds near the sum of two."""
    chosen = np.array([0, 1, (1 << 31) - 1, 1 << 31, (1 << 31) + 1, (1 << 32) - 2, (1 << 32) - 1], np.uint64)
    for place in range(3):
        lanes = rng.random(kernel_text.LANES) < 0.4
        words[place] = np.where(lanes, chosen[rng.integers(0, len(chosen), kernel_text.LANES)], words[place])
    words[2, ::4] = (words[0] + words[1])[::4] & np.uint64(0xFFFFFFFF)


_CHANGES = (
    (r"(mul|fma|mad)(\.r[nzmp])?\.ftz\b.*\.(f32|f16|f16x2)", _products),
    (r"(rcp|div)\.r[nzmp]\.ftz\.f32", _large_divisors),
    (r"cvt\.r[nzmp]\.ftz(\.sat)?\.f32\.f64", _near_the_least_f32),
    (r"cvt\.r[nzmp]\.ftz(\.sat)?\.f16\.f32", lambda _opcode, words, rng: _subnormal(0, words, rng)),
    (r"cvt(\.r[nzmp]i?|\.rna)?(\.satfinite)?(\.ftz)?(\.sat)?\.\w+\.(f16|bf16|f32|f64)", _converted_nans),
    (r"slct\.ftz\..*", lambda _opcode, words, rng: _subnormal(2, words, rng)),
    (r"fma\.rn\.oob.*", _out_of_bounds),
    (r"bf[ei]\..*", _counts),
    (r"(vadd|vsub|vabsdiff|vmin|vmax)\..*", _limits),
)
"""Patterns of opcodes, and what changes their random operands."""
