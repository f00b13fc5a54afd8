"""How long a launch takes, computed from waves, steps and bytes without running anything: see `microseconds`.

A launch takes as long as the memory needs for its bytes, or as the busiest multiprocessor needs for its tiles, and a
little more at its start and end. The rates are those of an H200, fitted to measurements of the candidates of forty
shapes with up to 16384 rows of A, and of forty shapes with few rows.
"""

from __future__ import annotations

import math

from samples.gemm.thin import TILE_K, Thin
from samples.gemm.wide import LINE, WARPGROUP_ROWS, Wide, box_of_c

ENDS, TOGETHER = 2.0, 0.6
"""Microseconds of a launch before its first and after its last step, and what clusters of wide tiles take longer."""
MEMORY = 4.0e6
"""Bytes a microsecond from memory."""

# Of thin tiles.
THIN_L2, THIN_PORT = 13.2e6, 135e3
"""Bytes a microsecond from the L2 cache to all multiprocessors, and to one."""
LATENCY = 1.3
"""Microseconds until a stage comes from memory: a ring of as many stages brings one each time this goes by once."""
NEXT_WAVE = 2.0
"""Microseconds until a CTA begins where another one ended."""
PART = 0.07
"""Microseconds that a cluster takes to add its sums, for each part and the root of a tile's columns."""
READ_BY_ALL = 8e-4
"""What a launch takes more for each column of its tiles: a row of A, which every CTA reads."""
THIN_NORM = 5.0
"""The memory, the L2 cache and the busiest multiprocessor take as long as this norm of them: each waits for others."""

# Of wide tiles.
L2, PORT = 17.1e6, 97.8e3
"""Bytes a microsecond from the L2 cache to all multiprocessors, and to one."""
SHARED_COLUMNS, UNALIGNED = 0.78, 1.32
"""What a column counts that two CTAs of a cluster share, and bytes where rows of the operands do not begin at lines."""
STEP, MULTIPLY, NARROW = 0.0175, 1.55e-3, 80
"""Microseconds of a step: always, and for each column of a tile and 64 rows; fewer columns take as long as so many."""
ALONE, TURNS = 1.01, 1.04
"""What a step takes more of CTAs that do not share tiles of B, in several waves, and of ping-pong consumers."""
STORE, STORED_ROW, LINES = 0.265, 1e-6, 9.8e-4
"""Microseconds between the last step of a tile and the first one of the next: always, for the square of its columns,
and for each column and line of C beyond one, where a row of 128 bytes is stored as several."""
NORM = 2.85
"""The memory and the busiest multiprocessor take as long as this norm of both."""


def microseconds(choice: Wide | Thin, m: int, n: int, depth: int, multiprocessors: int, batches: int = 1) -> float:
    """What the model says that a launch takes."""
    if isinstance(choice, Wide):
        return _wide_microseconds(choice, m, n, depth, multiprocessors, batches)
    return _thin_microseconds(choice, m, n, depth, multiprocessors)


def _wide_microseconds(choice: Wide, m: int, n: int, depth: int, multiprocessors: int, batches: int) -> float:
    tiles, steps, alone = batches * math.prod(choice.tiles(m, n)), depth / choice.depth, choice.cluster == 1
    waves = -(-tiles // (multiprocessors // choice.cluster * choice.cluster))
    memory = batches * ((m + n) * depth * choice.operand.bits + m * n * choice.result.bits) / 8 / MEMORY
    stores = 1 if choice.pingpong else waves  # in turns all but the last one are beside steps
    more = UNALIGNED if depth * choice.operand.bits % LINE else 1
    busiest = waves * steps * _step(choice, more) * (ALONE if alone and waves > 1 else 1) + stores * _store(choice)
    l2 = tiles * steps * LINE // 8 * (choice.rows + choice.columns // choice.cluster) * more / L2
    return ENDS + (0 if alone else TOGETHER) + max(l2, (memory**NORM + busiest**NORM) ** (1 / NORM))


def _step(choice: Wide, more: float) -> float:
    """Microseconds of a step, which the tensor cores multiply and a multiprocessor gets: so many times its bytes."""
    multiplied = STEP + MULTIPLY * max(NARROW, choice.columns) * choice.rows / WARPGROUP_ROWS
    columns = choice.columns * (1 if choice.cluster == 1 else SHARED_COLUMNS)
    return max(multiplied * (TURNS if choice.pingpong else 1), LINE // 8 * (choice.rows + columns) * more / PORT)


def _store(choice: Wide) -> float:
    more = LINE / (box_of_c(choice.columns, choice.result) * choice.result.bits) - 1
    return STORE + STORED_ROW * choice.columns**2 + LINES * choice.columns * more


def _thin_microseconds(choice: Thin, m: int, n: int, depth: int, multiprocessors: int) -> float:
    steps, (grid, _) = -(-depth // TILE_K), choice.launch_of(m, n, depth, multiprocessors)
    waves = -(-grid // (multiprocessors * choice.ctas))
    memory = 2 * (m * depth + n * depth + m * n) / MEMORY
    loaded, together = 2 * TILE_K * (choice.rows + choice.columns), min(choice.ctas, -(-grid // multiprocessors))
    busiest = waves * -(-steps // choice.split) * max(LATENCY / choice.stages, together * loaded / THIN_PORT)
    l2 = grid // choice.split * steps * loaded / THIN_L2
    sums = PART * choice.split * math.sqrt(choice.columns * choice.consumers) if choice.split > 1 else 0
    longest = sum(time**THIN_NORM for time in (memory, busiest, l2)) ** (1 / THIN_NORM)
    return ENDS + longest * (1 + READ_BY_ALL * choice.columns) + sums + NEXT_WAVE * (waves - 1)
