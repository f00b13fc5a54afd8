"""Which kernel multiplies a shape, and with what tile: a model of its time chooses, which runs nothing."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import product
from typing import TypeAlias

import nvbackend as nvb
from samples.gemm.model import MEMORY, resident
from samples.w4a16.clusters import clusters
from samples.w4a16.streams import streams
from samples.w4a16.weights import GROUP, ROWS

MULTIPROCESSORS = 132  # of an H200
SHARED = 231_000  # bytes of a multiprocessor's shared memory
TOGETHER = 32  # rows of X up to which a tile has all of them: two tiles would read W twice for little

# Microseconds of a launch (H200): always; of a step and each of its columns, by consumers and CTAs of a multiprocessor;
# of each other CTA's sums for a column, where CTAs share the depth; until a CTA begins where another one ended; and of
# streams more, for each column, and for each CTA that has steps of a tile.
START, SENT, NEXT_WAVE = 2.2, 0.0044, 1.5
STEP = {(1, 1): (0.18, 0.0016), (2, 1): (0.21, 0.0037), (1, 2): (0.17, 0.0045)}
LEFT, SHARE = 0.03, 1.0
NORM = 2.0  # of two times that wait for each other


def _while_loading(busiest: float, m: int, n: int, k: int) -> float:
    """About how long it takes, where the busiest multiprocessor computes for so long."""
    memory = (n * k / 2 + 2 * m * k) / MEMORY
    return float((busiest**NORM + memory**NORM) ** (1 / NORM))


@dataclass(frozen=True)
class Clusters:
    """The constants of a build of `clusters`."""

    columns: int
    split: int
    stages: int
    consumers: int = 2
    ctas: int = 1

    @property
    def kernel(self) -> nvb.KernelDefinition:
        return clusters.with_(**asdict(self))

    def grid(self, m: int, n: int, *_: int) -> int:
        """A cluster for each tile."""
        return n // (ROWS * self.consumers) * -(-m // self.columns) * self.split

    def workspace(self, *_: int) -> tuple[int, ...]:
        """None."""
        return ()

    def microseconds(self, m: int, n: int, k: int, multiprocessors: int) -> float:
        """About how long a launch takes: as long as the memory, and the busiest multiprocessor, by a norm of both."""
        grid = self.grid(m, n)
        waves = -(-grid // (resident(multiprocessors, self.split) * self.ctas))
        always, each = STEP[self.consumers, self.ctas if grid > multiprocessors else 1]
        busiest = waves * -(-k // (GROUP * self.split)) * (always + each * self.columns)
        sent = SENT * self.columns * (self.split - 1)
        return START + (sent + NEXT_WAVE) * waves - NEXT_WAVE + _while_loading(busiest, m, n, k)


@dataclass(frozen=True)
class Streams:
    """The constants of a build of `streams`."""

    columns: int
    stages: int
    consumers: int = 2
    ctas: int = 1

    @property
    def kernel(self) -> nvb.KernelDefinition:
        return streams.with_(**asdict(self))

    def _tiles(self, m: int, n: int) -> int:
        return n // (ROWS * self.consumers) * -(-m // self.columns)

    def grid(self, m: int, n: int, k: int, multiprocessors: int = MULTIPROCESSORS) -> int:
        """As many CTAs as run at once, and no more than there are steps."""
        return min(multiprocessors * self.ctas, self._tiles(m, n) * (k // GROUP))

    def workspace(self, m: int, n: int, k: int, multiprocessors: int = MULTIPROCESSORS) -> tuple[int, ...]:
        """How many f32 and flags CTAs leave for one another; flags are 0 before a launch, and after it."""
        flags = self.grid(m, n, k, multiprocessors) * self.consumers
        return flags * ROWS * self.columns, flags

    def microseconds(self, m: int, n: int, k: int, multiprocessors: int) -> float:
        """About how long a launch takes, as that of clusters."""
        always, each = STEP[self.consumers, self.ctas]
        tiles, grid = self._tiles(m, n), self.grid(m, n, k, multiprocessors)
        busiest = -(-tiles * (k // GROUP) // grid) * (always + each * self.columns)
        return START + LEFT * self.columns + SHARE * grid / tiles + _while_loading(busiest, m, n, k)


Choice: TypeAlias = Clusters | Streams
COLUMNS, SPLITS, LEAST_STAGES, MOST_STAGES = (8, 16, 32, 64, 96, 128), (8, 4, 2, 1), 4, 8


def _stages(columns: int, consumers: int, ctas: int, sums: int = 0) -> int:
    """As many as there is room for beside `sums`, which CTAs share."""
    rows = ROWS * consumers
    stage = 2 * columns * GROUP + rows * GROUP // 2 + 2 * rows
    return min(MOST_STAGES, (SHARED // ctas - 4 * sums) // stage)


def clusters_of(columns: int, split: int, consumers: int = 2, ctas: int = 1) -> Clusters:
    """With as many stages as there is room for."""
    sums = columns * ROWS * consumers if split > 1 else 0
    return Clusters(columns, split, _stages(columns, consumers, ctas, sums), consumers, ctas)


def streams_of(columns: int, consumers: int = 2, ctas: int = 1) -> Streams:
    """With as many stages as there is room for."""
    return Streams(columns, _stages(columns, consumers, ctas), consumers, ctas)


def candidates(m: int) -> list[Choice]:
    """Tiles of all rows of X, up to 128, or of half of many, by how many CTAs share the depth and a multiprocessor."""
    together = (m, -(-m // 2)) if m > TOGETHER else (m,)
    fitting = [next((one for one in COLUMNS if rows <= one), COLUMNS[-1]) for rows in together]
    every: list[Choice] = [
        clusters_of(columns, split, *form) for columns, split, form in product(fitting, SPLITS, STEP)
    ]
    every += [streams_of(fitting[0], *form) for form in STEP]
    return list(dict.fromkeys(one for one in every if one.stages >= LEAST_STAGES))


def choose(m: int, n: int, k: int, multiprocessors: int = MULTIPROCESSORS) -> Choice:
    """The candidate that takes least time; of equal ones the first."""
    return min(candidates(m), key=lambda one: one.microseconds(m, n, k, multiprocessors))
