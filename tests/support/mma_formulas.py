"""Which thread holds which element for mma.sync, from the formulas and figures of PTX ISA 9.7.14.5 and 9.7.14.6.

A second transcription, which shares nothing with `fragments_mma`: its tests compare the two, and the tests on a GPU
place their numbers by this one.
"""

from __future__ import annotations

from collections.abc import Callable

LANES = range(32)
Formula = Callable[[int, int, int], tuple[int, int]]
"""(row, column) from groupID, threadID_in_group and i."""

A: dict[tuple[tuple[int, int, int], int], tuple[int, Formula]] = {
    # shape, bits: elements a thread and where they are, each from its own section
    ((8, 8, 16), 8): (4, lambda g, t, i: (g, t * 4 + i)),
    ((8, 8, 32), 4): (8, lambda g, t, i: (g, t * 8 + i)),
    ((8, 8, 128), 1): (32, lambda g, t, i: (g, t * 32 + i)),
    ((8, 8, 4), 64): (1, lambda g, t, _: (g, t)),
    ((16, 8, 4), 32): (2, lambda g, t, i: (g + 8 * i, t)),
    ((16, 8, 4), 64): (2, lambda g, t, i: (g if i == 0 else g + 8, t)),
    ((16, 8, 8), 16): (4, lambda g, t, i: (g if i < 2 else g + 8, t * 2 + (i & 1))),
    ((16, 8, 8), 32): (4, lambda g, t, i: (g if i in (0, 2) else g + 8, t if i < 2 else t + 4)),
    ((16, 8, 8), 64): (4, lambda g, t, i: (g if i in (0, 2) else g + 8, t if i < 2 else t + 4)),
    ((16, 8, 16), 16): (
        8,
        lambda g, t, i: (g if i in (0, 1, 4, 5) else g + 8, t * 2 + (i & 1) + (0 if i < 4 else 8)),
    ),
    ((16, 8, 16), 64): (
        8,
        lambda g, t, i: (g if i % 2 == 0 else g + 8, i * 2 + t if i % 2 == 0 else i * 2 - 2 + t),
    ),
    ((16, 8, 16), 8): (8, lambda g, t, i: (g if i < 4 else g + 8, t * 4 + (i & 3))),
    ((16, 8, 32), 4): (16, lambda g, t, i: (g if i < 8 else g + 8, t * 8 + (i & 7))),
    ((16, 8, 32), 8): (
        16,
        lambda g, t, i: (g if i < 4 or 8 <= i < 12 else g + 8, t * 4 + (i & 3) + (0 if i < 8 else 16)),
    ),
    ((16, 8, 64), 4): (
        32,
        lambda g, t, i: (g if i < 8 or 16 <= i < 24 else g + 8, t * 8 + (i & 7) + (0 if i < 16 else 32)),
    ),
    ((16, 8, 128), 1): (64, lambda g, t, i: (g if i < 32 else g + 8, t * 32 + (i & 31))),
    ((16, 8, 256), 1): (
        128,
        lambda g, t, i: (g if i < 32 or 64 <= i < 96 else g + 8, t * 32 + (i & 31) + (0 if i < 64 else 128)),
    ),
}
B: dict[tuple[tuple[int, int, int], int], tuple[int, Formula]] = {
    ((8, 8, 16), 8): (4, lambda g, t, i: (t * 4 + i, g)),
    ((8, 8, 32), 4): (8, lambda g, t, i: (t * 8 + i, g)),
    ((8, 8, 128), 1): (32, lambda g, t, i: (t * 32 + i, g)),
    ((8, 8, 4), 64): (1, lambda g, t, _: (t, g)),
    ((16, 8, 4), 32): (1, lambda g, t, _: (t, g)),
    ((16, 8, 4), 64): (1, lambda g, t, _: (t, g)),
    ((16, 8, 8), 16): (2, lambda g, t, i: (t * 2 + i, g)),
    ((16, 8, 8), 32): (2, lambda g, t, i: (t if i == 0 else t + 4, g)),
    ((16, 8, 8), 64): (2, lambda g, t, i: (t + i * 4, g)),
    ((16, 8, 16), 16): (4, lambda g, t, i: (t * 2 + (i & 1) + (0 if i < 2 else 8), g)),
    ((16, 8, 16), 64): (4, lambda g, t, i: (t + i * 4, g)),
    ((16, 8, 16), 8): (4, lambda g, t, i: (t * 4 + i, g)),
    ((16, 8, 32), 4): (8, lambda g, t, i: (t * 8 + i, g)),
    ((16, 8, 32), 8): (8, lambda g, t, i: (t * 4 + (i & 3) + (0 if i < 4 else 16), g)),
    ((16, 8, 64), 4): (16, lambda g, t, i: (t * 8 + (i & 7) + (0 if i < 8 else 32), g)),
    ((16, 8, 128), 1): (32, lambda g, t, i: (t * 32 + i, g)),
    ((16, 8, 256), 1): (64, lambda g, t, i: (t * 32 + (i & 31) + (0 if i < 32 else 128), g)),
    # of the sparse shapes that no dense one has
    ((16, 8, 32), 16): (8, lambda g, t, i: (t * 2 + (i & 1) + i // 2 * 8, g)),
    ((16, 8, 16), 32): (4, lambda g, t, i: (t + i * 4, g)),
    ((16, 8, 64), 8): (16, lambda g, t, i: (t * 4 + (i & 3) + i // 4 * 16, g)),
    ((16, 8, 128), 4): (32, lambda g, t, i: (t * 8 + (i & 7) + i // 8 * 32, g)),
}


def d_formula(g: int, t: int, i: int) -> tuple[int, int]:
    """C and D of every shape but m8n8k4 of f16."""
    return (g if i < 2 else g + 8), t * 2 + (i & 1)


def high(lane: int) -> int:
    """Half a matrix further for the upper half of the warp: m8n8k4 of f16."""
    return 0 if lane < 16 else 4


FOUR_MATRICES: dict[str, tuple[int, Callable[[int, int], tuple[int, int]]]] = {
    # elements a thread, and row and column in its matrix from lane and i; of m8n8k4 of f16
    "A row": (4, lambda lane, i: (lane % 4 + high(lane), i)),
    "A col": (4, lambda lane, i: (i % 4 + high(lane), lane % 4)),
    "B row": (4, lambda lane, i: (lane % 4, i + high(lane))),
    "B col": (4, lambda lane, i: (i, lane % 4 + high(lane))),
    "D f16": (8, lambda lane, i: (lane % 4 + high(lane), i)),
    "D f32": (8, lambda lane, i: ((lane & 1) + (i & 2) + high(lane), (i & 4) + (lane & 2) + (i & 1))),
}


def matrix_of(lane: int) -> int:
    """Which of the four multiplications of m8n8k4 of f16: quad pairs 0-3 and 16-19, 4-7 and 20-23, ..."""
    return lane % 16 // 4


METADATA: dict[tuple[tuple[int, int, int], int], tuple[int, Formula]] = {
    # bits, K: threads of a quad that count, and row and column of chunk c of the r-th of them; from the figures
    (16, 16): (1, lambda g, _, c: (g + 8 * (c // 4), c % 4 * 4)),
    (16, 32): (2, lambda g, r, c: (g + 8 * (c // 4), r * 16 + c % 4 * 4)),
    (32, 8): (1, lambda g, _, c: (g + 8 * (c // 4), c % 4 * 2)),
    (32, 16): (2, lambda g, r, c: (g + 8 * (c // 4), r * 8 + c % 4 * 2)),
    (8, 32): (2, lambda g, r, c: (g + 8 * r, c * 4)),
    (8, 64): (4, lambda g, r, c: (g + 8 * (r % 2), r // 2 * 32 + c * 4)),
    (4, 64): (2, lambda g, r, c: (g + 8 * r, c * 8)),
    (4, 128): (4, lambda g, r, c: (g + 8 * (r % 2), r // 2 * 64 + c * 8)),
}
