"""Counting, finding, extracting and inserting bits. PTX ISA 9.7.1 (popc to bmsk)."""

from __future__ import annotations

import numpy as np

from nvbackend.simulator.scalar.pure import INTEGERS, SIGNED, UNSIGNED, Bits, Pure, Spelling, numbers

_SIZES = {"b32": 32, "b64": 64}
_WORDS = ("u32", "u64", "s32", "s64")
_BYTE = range(256)
_COUNTS = np.array([bin(one).count("1") for one in _BYTE], np.uint8)
_REVERSED = np.array([int(f"{one:08b}"[::-1], 2) for one in _BYTE], np.uint8)
_NONE = np.uint32(0xFFFFFFFF)
_BYTE_MASK = np.uint32(0xFF)
_ALL = np.uint32(0xFFFFFFFF)
_FIVE = np.uint32(31)
_WHOLE = 32
_LEAST = -(1 << 31)


def _count(spelling: Spelling) -> Pure:
    kind = spelling.must(*_SIZES)

    def call(a: Bits) -> tuple[Bits]:
        counts = _COUNTS[a.view(np.uint8)].reshape(*a.shape, a.dtype.itemsize)
        return (counts.sum(axis=-1, dtype=np.uint32),)

    return Pure(("u32",), (kind,), call)


def length(a: Bits) -> Bits:
    """How many bits each number has without its leading zeros, int32."""
    if a.dtype.itemsize < np.dtype(np.uint64).itemsize:
        return np.frexp(a.astype(np.float64))[1]
    high = (a >> np.uint64(32)).astype(np.uint32)
    return np.where(high, length(high) + 32, length(a.astype(np.uint32)))


def _leading_zeros(spelling: Spelling) -> Pure:
    kind = spelling.must(*_SIZES)
    bits = _SIZES[kind]
    return Pure(("u32",), (kind,), lambda a: ((bits - length(a)).astype(np.uint32),))


def _find(spelling: Spelling) -> Pure:
    """bfind: the highest bit that differs from the sign, or its distance from the top."""
    from_top = spelling.has("shiftamt")
    kind = spelling.must(*_WORDS)
    bits = INTEGERS[kind]

    def call(a: Bits) -> tuple[Bits]:
        given = np.where(numbers(a, kind) < 0, ~a, a) if kind[0] == "s" else a
        size = length(given)
        place = (bits - size if from_top else size - 1).astype(np.uint32)
        return (np.where(size == 0, _NONE, place),)

    return Pure(("u32",), (kind,), call)


def _find_nth(spelling: Spelling) -> Pure:
    kind = spelling.must("b32")

    def call(mask: Bits, base: Bits, offset: Bits) -> tuple[Bits]:
        rows = zip(mask.flat, base.flat, offset.view(np.int32).flat, strict=True)
        found = [_nth(int(one), int(start), int(count)) for one, start, count in rows]
        return (np.array(found, np.uint32).reshape(mask.shape),)

    return Pure((kind,), (kind, "u32", "s32"), call)


def _nth(mask: int, base: int, offset: int) -> int:
    """The place of the `offset`-th bit that is set, from `base` up, or down where it is negative.

    PTX leaves a base above 31 undefined: nothing is found. The least offset finds bit 0 on every chip, by ptxas.
    """
    if offset == _LEAST:
        return 0
    if base >= _WHOLE:
        return int(_NONE)
    places = [base] if offset == 0 else range(base, _WHOLE) if offset > 0 else range(base, -1, -1)
    there = [place for place in places if mask >> place & 1]
    return there[max(abs(offset), 1) - 1] if max(abs(offset), 1) <= len(there) else int(_NONE)


def _reverse(spelling: Spelling) -> Pure:
    kind = spelling.must(*_SIZES)
    return Pure((kind,), (kind,), lambda a: (_REVERSED[a.byteswap().view(np.uint8)].view(a.dtype),))


def _counted(bits: int) -> np.uint32:
    """The bits of a start or a length that count: of 64-bit fields all, though PTX says eight (docs/divergences.md)."""
    return _BYTE_MASK if bits == _WHOLE else _ALL


def _extract(spelling: Spelling) -> Pure:
    kind = spelling.must(*_WORDS)
    narrow = UNSIGNED[INTEGERS[kind]]
    wide = SIGNED[64] if kind[0] == "s" else UNSIGNED[64]
    mask = _counted(INTEGERS[kind])

    def call(a: Bits, b: Bits, c: Bits) -> tuple[Bits]:
        start, count = (one & mask for one in (b, c))
        moved = np.right_shift(numbers(a, kind).astype(wide), start.astype(wide))
        cut = (64 - np.minimum(count, np.uint32(64))).astype(wide)
        return (np.right_shift(np.left_shift(moved, cut), cut).astype(narrow),)

    def signed(a: Bits, b: Bits, c: Bits) -> tuple[Bits]:
        return (np.where(c & mask, call(a, b, c)[0], narrow(0)),)

    return Pure((kind,), (kind, "u32", "u32"), signed if kind[0] == "s" else call)


def _insert(spelling: Spelling) -> Pure:
    kind = spelling.must(*_SIZES)
    dtype = UNSIGNED[_SIZES[kind]]
    counted = _counted(_SIZES[kind])

    def call(a: Bits, b: Bits, c: Bits, d: Bits) -> tuple[Bits]:
        start, count = ((one & counted).astype(dtype) for one in (c, d))
        mask = np.left_shift(np.left_shift(dtype(1), count) - dtype(1), start)
        return ((b & ~mask) | (np.left_shift(a, start) & mask),)

    return Pure((kind,), (kind, kind, "u32", "u32"), call)


def _extend(spelling: Spelling) -> Pure:
    """szext: the lower b bits of a, extended."""
    clamps = spelling.must("clamp", "wrap") == "clamp"
    kind = spelling.must("u32", "s32")

    def call(a: Bits, b: Bits) -> tuple[Bits]:
        count = b & _FIVE
        cut = (_WHOLE - count).astype(np.uint32)
        moved = numbers(np.left_shift(a, cut), kind)
        found = np.right_shift(moved, cut.astype(moved.dtype)).view(np.uint32)
        found = np.where(count == 0, np.uint32(0), found)
        return (np.where(b > _FIVE, a, found) if clamps else found,)

    return Pure((kind,), (kind, "u32"), call)


def _mask(spelling: Spelling) -> Pure:
    """bmsk: b ones from bit a on."""
    clamps = spelling.must("clamp", "wrap") == "clamp"
    kind = spelling.must("b32")

    def call(a: Bits, b: Bits) -> tuple[Bits]:
        if clamps:
            start, count = (np.minimum(one, np.uint32(_WHOLE)) for one in (a, b))
        else:
            start, count = a & _FIVE, b & _FIVE
        return (np.left_shift(_ALL, start) & ~np.left_shift(_ALL, start + count),)

    return Pure((kind,), (kind, kind), call)


MAKERS = {
    "popc": _count,
    "clz": _leading_zeros,
    "bfind": _find,
    "fns": _find_nth,
    "brev": _reverse,
    "bfe": _extract,
    "bfi": _insert,
    "szext": _extend,
    "bmsk": _mask,
}
