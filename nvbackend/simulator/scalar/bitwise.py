"""Copies, logic and shifts. PTX ISA 9.7.8, and 9.7.9 (mov)."""

from __future__ import annotations

from typing import Any

import numpy as np

from nvbackend.simulator.scalar.pure import BYTES, INTEGERS, SIGNED, UNSIGNED, Bits, Pure, Spelling

_LOGIC = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
_MOVED = ("pred", *BYTES, "b128", *INTEGERS, "f16", "bf16", "f16x2", "bf16x2", "f32", "f64")
_SIZES = ("b16", "b32", "b64")


def _logic(spelling: Spelling) -> Pure:
    operation = _LOGIC[spelling.name]
    kind = spelling.must("pred", *_SIZES)
    return Pure((kind,), (kind, kind), lambda a, b: (operation(a, b),))


def _not(spelling: Spelling) -> Pure:
    kind = spelling.must("pred", *_SIZES)
    return Pure((kind,), (kind,), lambda a: (~a,))


def _is_zero(spelling: Spelling) -> Pure:
    kind = spelling.must(*_SIZES)
    return Pure((kind,), (kind,), lambda a: ((a == 0).astype(a.dtype),))


def _amount(count: Bits, dtype: np.dtype[Any]) -> Bits:
    """An amount of 32 bits in the type that is shifted; NumPy shifts all out by what is past it, or negative."""
    if dtype.itemsize == count.dtype.itemsize:
        return count.view(dtype)
    return np.minimum(count, np.uint32(64)).astype(dtype)


def _shift_left(spelling: Spelling) -> Pure:
    kind = spelling.must(*_SIZES)
    return Pure((kind,), (kind, "u32"), lambda a, b: (np.left_shift(a, _amount(b, a.dtype)),))


def _shift_right(spelling: Spelling) -> Pure:
    kind = spelling.must(*_SIZES, *(one for one, bits in INTEGERS.items() if bits > BYTES["b8"]))
    if kind[0] != "s":
        return Pure((kind,), (kind, "u32"), lambda a, b: (np.right_shift(a, _amount(b, a.dtype)),))
    signed = np.dtype(SIGNED[INTEGERS[kind]])
    unsigned = UNSIGNED[INTEGERS[kind]]
    return Pure(
        (kind,), (kind, "u32"), lambda a, b: (np.right_shift(a.view(signed), _amount(b, signed)).view(unsigned),)
    )


def _move(spelling: Spelling) -> Pure:
    kind = spelling.must(*_MOVED)
    return Pure((kind,), (kind,), lambda a: (a.copy(),))


MAKERS = {
    "mov": _move,
    **dict.fromkeys(_LOGIC, _logic),
    "not": _not,
    "cnot": _is_zero,
    "shl": _shift_left,
    "shr": _shift_right,
}
