"""Operands for the tests of scalar instructions: bits of each PTX type, many of them at the edges."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from nvbackend.simulator.scalar import find

LANES = 48
_PARTS = {"f16x2": ("f16", 2), "bf16x2": ("bf16", 2), "f32x2": ("f32", 2), "u16x2": ("u16", 2), "s16x2": ("s16", 2)}
_FLOATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
_BYTES = re.compile(r"(e4m3|e5m2|e2m3|e3m2|e2m1|ue8m0|s2f6)x2")


def width_of(kind: str) -> int:
    """The bits of a type."""
    if kind in ("pred", "cc"):
        return 1
    if match := _BYTES.fullmatch(kind):
        return 8 if match[1] == "e2m1" else 16
    if kind in _PARTS:
        element, count = _PARTS[kind]
        return width_of(element) * count
    return int(re.search(r"(\d+)$", kind).group(1))


def drawn(kind: str, rng: np.random.Generator, count: int = LANES) -> np.ndarray[Any, Any]:
    """Random bits of a type, some of them special."""
    if kind in ("pred", "cc"):
        return rng.integers(0, 2, count).astype(bool)
    if kind in _PARTS:
        element, parts = _PARTS[kind]
        return drawn(element, rng, count * parts).view(f"uint{width_of(kind)}")
    width = width_of(kind)
    bits = rng.integers(0, 1 << width, count, dtype=np.uint64, endpoint=False) if width < 64 else _words(rng, count)
    special = _specials(kind, width)
    chosen = rng.integers(0, len(special), count)
    picked = np.array([special[place] for place in chosen], np.uint64)
    near = picked + rng.integers(0, 3, count).astype(np.uint64) - np.uint64(1)
    mode = rng.integers(0, 6, count)
    found = np.where(mode == 0, picked, np.where(mode == 1, near, bits))
    if kind in _FLOATS:
        found = np.where(mode >= 4, _moderate(kind, rng, count), found)
    return (found & np.uint64((1 << width) - 1)).astype(f"uint{width}")


def _words(rng: np.random.Generator, count: int) -> np.ndarray[Any, Any]:
    high, low = (rng.integers(0, 1 << 32, count, dtype=np.uint64) for _ in range(2))
    return (high << np.uint64(32)) | low


def _moderate(kind: str, rng: np.random.Generator, count: int) -> np.ndarray[Any, Any]:
    """Numbers around one, with few digits: their sums are exact or in the middle of two."""
    exponent, mantissa = _FLOATS[kind]
    bias = (1 << (exponent - 1)) - 1
    field = (bias + rng.integers(-6, 7, count)).astype(np.uint64)
    digits = rng.integers(0, 1 << min(4, mantissa), count).astype(np.uint64) << np.uint64(mantissa - min(4, mantissa))
    sign = rng.integers(0, 2, count).astype(np.uint64) << np.uint64(exponent + mantissa)
    return sign | (field << np.uint64(mantissa)) | digits


def _specials(kind: str, width: int) -> list[int]:
    top = 1 << (width - 1)
    if kind in _FLOATS:
        exponent, mantissa = _FLOATS[kind]
        infinity = ((1 << exponent) - 1) << mantissa
        one = ((1 << (exponent - 1)) - 1) << mantissa
        positive = [0, 1, 1 << (mantissa - 1), 1 << mantissa, one, one + 1, infinity - 1, infinity, infinity + 1]
        nans = [0x7FF7, 0x7EFF, 0x7FFF] if width == 16 else []  # candidates for what stands for "out of bounds"
        return positive + [top | number for number in positive] + nans + nans
    return [0, 1, 2, 3, 31, 32, 33, 63, 64, 100, top - 1, top, top + 1, 2 * top - 2, 2 * top - 1]


def computed(opcode: str, *given: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], ...]:
    """What the instruction makes of these operands."""
    pure = find(tuple(opcode.split(".")))
    assert pure is not None, opcode
    with np.errstate(all="ignore"):
        return pure.call(*given)


def random_operands(opcode: str, seed: int = 0, count: int = LANES) -> list[np.ndarray[Any, Any]]:
    """Random operands of an instruction."""
    pure = find(tuple(opcode.split(".")))
    assert pure is not None, opcode
    rng = np.random.default_rng([seed, *opcode.encode()])
    return [drawn(kind, rng, count) for kind in pure.operands]
