"""What the kernels share: tiles, tensor maps, whole numbers whose products' sums are exact, and CUTLASS's states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import nvbackend as nvb
from nvbackend import Major, SmemLayout, SwizzleMode, f16, f32, i32
from tests.corpus.parts import EXTENT, MATRIX, TILE, multiply, store_chunks, warp_sum
from tests.dry_run.registry import Launch, Out

__all__ = [
    "COUNT", "EXTENT", "MATRIX", "OUT", "TALL", "TALL_MATRIX", "TILE", "State", "chunk_of", "gemm", "multiply", "named",
    "product", "small", "store_chunks", "warp_sum",
]  # fmt: skip
OUT = nvb.Pointer[f32]
COUNT = i32
"""How many tiles or steps there are: at least one."""
TALL = SmemLayout(Major.K, SwizzleMode.B128, f16, 128, 64)
TALL_MATRIX = nvb.TensorMap(f16, box=(128, 64))


def small(seed: int, *shape: int, kind: Any = np.float16) -> np.ndarray[Any, Any]:
    """Small whole numbers."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(kind)


def product(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A * B^T."""
    return a.astype(np.float32) @ b.astype(np.float32).T


def copied(*counts: int) -> Callable[[], list[Launch]]:
    """Launches that copy so many tiles of 64 x 64."""

    def launch(tiles: int) -> Launch:
        x = small(tiles, 64 * tiles, 64)
        return Launch(1, (x, Out(x), tiles))

    return lambda: [launch(tiles) for tiles in counts]


def gemm(
    grid: int, rows: int, steps: int, *counts: int, tile: int = EXTENT, columns: int = 64, half: bool = False
) -> Launch:
    """C (rows tiles x columns) = A * B^T with K of 64 a step; `counts` are the kernel's last arguments."""
    a, b = small(rows, tile * rows, 64 * steps), small(steps + 7, columns, 64 * steps)
    c = product(a, b)
    return Launch(grid, (a, b, Out(c.astype(np.float16) if half else c), *counts))


def chunk_of(tile: nvb.SharedTile, row: Any, chunk: Any) -> nvb.Address:
    """The eight f16 of a row of 64 from column 8 * chunk on, which the swizzle leaves together."""
    return tile.address.cast(f16).byte_offset(row * 128 + (chunk ^ (row % 8)) * 16, align=16)


def named(mistake: str | None):
    """Whether the kernel is built with this mistake."""
    return lambda name: mistake == name


class State:
    """CUTLASS's PipelineState: the stage, and the phase, which flips where the stage begins again at 0."""

    def __init__(self, k: nvb.KernelBuilder, stages: int, phase: Any = 0, index: Any = 0, wraps_at: int | None = None):
        self.k, self.wraps_at = k, stages if wraps_at is None else wraps_at
        self.index, self.phase = k.var(index), k.var(phase)

    def advance(self) -> None:
        self.index += 1
        with self.k.if_(self.index == self.wraps_at):
            self.index.set(0)
            self.phase ^= 1

    def count_by_mask(self, mask: int) -> None:
        """What is right where the stages are a power of two."""
        self.index.set((self.index + 1) & mask)
        with self.k.if_(self.index == 0):
            self.phase ^= 1
