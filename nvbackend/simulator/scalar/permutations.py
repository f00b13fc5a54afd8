"""Functions of three words and moves of bytes: lop3, shf, prmt. PTX ISA 9.7.8 and 9.7.9."""

from __future__ import annotations

from functools import cache, reduce

import numpy as np

from nvbackend.simulator.scalar.pure import Bits, Pure, Spelling

_WORD = np.uint64(32)
_EIGHT = 8
_NIBBLES = np.array([0, 4, 8, 12], np.uint32)
_MODES = {
    "f4e": ("3210", "4321", "5432", "6543"),
    "b4e": ("5670", "6701", "7012", "0123"),
    "rc8": ("0000", "1111", "2222", "3333"),
    "ecl": ("3210", "3211", "3222", "3333"),
    "ecr": ("0000", "1110", "2210", "3210"),
    "rc16": ("1010", "3232", "1010", "3232"),
}
"""The source of each byte of the result, the highest first, for c = 0 to 3."""


def _funnel(spelling: Spelling) -> Pure:
    """shf: 32 bits out of b and a, shifted as one number of 64."""
    left = spelling.must("l", "r") == "l"
    clamps = spelling.must("clamp", "wrap") == "clamp"
    kind = spelling.must("b32")

    def call(a: Bits, b: Bits, c: Bits) -> tuple[Bits]:
        count = (np.minimum(c, np.uint32(32)) if clamps else c & np.uint32(31)).astype(np.uint64)
        both = (b.astype(np.uint64) << _WORD) | a
        return (((both << count) >> _WORD if left else both >> count).astype(np.uint32),)

    return Pure((kind,), (kind, kind, "u32"), call)


@cache
def _terms(table: int) -> tuple[int, ...]:
    """A function of three bits as a sum modulo 2 of products: each names a, b and c by the bits 4, 2 and 1."""
    sums = [table >> place & 1 for place in range(_EIGHT)]
    for variable in (1, 2, 4):
        sums = [one ^ (sums[place ^ variable] if place & variable else 0) for place, one in enumerate(sums)]
    return tuple(place for place, one in enumerate(sums) if one)


def _of_three(table: int, a: Bits, b: Bits, c: Bits) -> Bits:
    found = np.zeros_like(a)
    for term in _terms(table):
        factors = [one for bit, one in ((4, a), (2, b), (1, c)) if term & bit]
        found = found ^ reduce(np.bitwise_and, factors) if factors else ~found
    return found


def _lop3(spelling: Spelling) -> Pure:
    boolean = spelling.take("or", "and")
    kind = spelling.must("b32")
    if not boolean:
        return Pure((kind,), (kind, kind, kind, "u32"), lambda a, b, c, table: (_of_three(int(table[0]), a, b, c),))
    combine = np.logical_or if boolean == "or" else np.logical_and

    def call(a: Bits, b: Bits, c: Bits, table: Bits, q: Bits) -> tuple[Bits, Bits]:
        found = _of_three(int(table[0]), a, b, c)
        return found, combine(found, q)

    return Pure((kind, "pred"), (kind, kind, kind, "u32", "pred"), call)


def permuted(a: Bits, b: Bits, selectors: Bits) -> Bits:
    """Four bytes of b and a, chosen by four bits each; the highest of them copies a byte's sign."""
    source = np.stack((a, b), axis=-1).view(np.uint8)
    chosen = np.right_shift(selectors[..., None], _NIBBLES) & np.uint32(15)
    found = np.take_along_axis(source, (chosen & np.uint32(7)).astype(np.int64), axis=-1)
    signs = chosen > _EIGHT - 1
    if np.count_nonzero(signs):
        found = np.where(signs, (found.view(np.int8) >> 7).view(np.uint8), found)
    words: Bits = found.view(np.uint32)[..., 0]
    return words


def _permute(spelling: Spelling) -> Pure:
    kind = spelling.must("b32")
    mode = spelling.take(*_MODES)
    if not mode:
        return Pure((kind,), (kind,) * 3, lambda a, b, c: (permuted(a, b, c),))
    selectors = np.array([int(digits, 16) for digits in _MODES[mode]], np.uint32)
    return Pure((kind,), (kind,) * 3, lambda a, b, c: (permuted(a, b, selectors[c & np.uint32(3)]),))


MAKERS = {"shf": _funnel, "lop3": _lop3, "prmt": _permute}
