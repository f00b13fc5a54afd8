"""Which kernel multiplies a shape: a model of waves, steps and bytes, without running anything.

A launch takes as long as the memory needs for its bytes, or as the busiest multiprocessor for its tiles, and a little
more to begin and to end. The rates are those of an H200, measured over all candidates and seven shapes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from samples.gemm.thin import Thin
from samples.gemm.wide import TILE_K, Wide

Choice = Wide | Thin

SHARED = 220_000
"""Bytes of a multiprocessor's shared memory for rings and sums."""
ENDS = 3.5
"""Microseconds of a launch before its first and after its last step."""
MEMORY, L2 = 4.0e6, 14.5e6
"""Bytes a microsecond from memory, and from the L2 cache to all multiprocessors."""
IN_FLIGHT = 60e3
"""Bytes a microsecond that a ring brings to one CTA."""
STEP = {(1, 64): 0.13, (1, 128): 0.186, (1, 256): 0.365, (2, 128): 0.36, (2, 192): 0.53, (2, 256): 0.69}
"""Microseconds of a step of 64 columns, by consumers and columns of a tile."""
ALONE = 1.01
"""What CTAs lose that do not share their tiles of B."""
FEW = 32
"""Up to so many rows of A most of a wide tile would be empty."""


def wide_ones() -> Iterator[Wide]:
    """Tiles of 64 to 128 rows, as many stages as there is room for, with and without a cluster."""
    rings = [(1, 64, 8), (1, 128, 7), (1, 256, 4), (2, 128, 5), (2, 192, 4), (2, 256, 3)]
    for (consumers, columns, stages), cluster in itertools.product(rings, (1, 2)):
        yield Wide(columns, consumers, cluster, stages)


def thin_ones(m: int) -> Iterator[Thin]:
    """Tiles that have all `m` rows of A, by how many CTAs share the depth."""
    columns = next((columns for columns in (8, 16, 32, 64, 128) if m <= columns), None)
    if columns is None:
        return
    for consumers, split in itertools.product((1, 2), (1, 2, 4, 8)):
        ctas = 2 if columns <= 32 else 1
        stage, sums = (columns + 64 * consumers) * 2 * TILE_K, columns * consumers * 256
        yield Thin(columns, consumers, split, min(8, (SHARED // ctas - sums) // stage), ctas)


def microseconds(choice: Choice, m: int, n: int, depth: int, multiprocessors: int) -> float:
    """What the model says that a launch takes."""
    steps, memory = -(-depth // TILE_K), 2 * (m * depth + n * depth + m * n) / MEMORY
    if isinstance(choice, Wide):
        tiles = math.prod(choice.tiles(m, n))
        waves = -(-tiles // (multiprocessors // choice.cluster * choice.cluster))
        loaded = 2 * TILE_K * (choice.rows + choice.columns)
        busiest = waves * steps * STEP[choice.consumers, choice.columns] * (ALONE if choice.cluster == 1 else 1)
        return ENDS + max(memory, busiest, tiles * steps * loaded / L2)
    grid, _ = choice.launch_of(m, n, depth, multiprocessors)
    waves = -(-grid // (multiprocessors * choice.ctas))
    step = 2 * TILE_K * (choice.rows + choice.columns) / IN_FLIGHT
    return ENDS + max(memory, waves * -(-steps // choice.split) * step) + 0.25 * choice.split


def candidates(m: int) -> list[Choice]:
    """All choices for a shape with `m` rows of A."""
    return [*(wide_ones() if m > FEW else ()), *thin_ones(m)]


def choose(m: int, n: int, depth: int, multiprocessors: int = 132) -> Choice:
    """The candidate that takes least time, as the model has it; of equal ones the first."""
    return min(candidates(m), key=lambda choice: microseconds(choice, m, n, depth, multiprocessors))
