"""For large results: CTAs stay, and walk over tiles of C; a cluster shares each tile of B. The tile is a constant."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated

import nvbackend as nvb
from nvbackend import f16, f32, i32

WARPGROUP_ROWS, TILE_K = 64, 64
PRODUCER_REGISTERS = 40
REGISTERS = {1: 240, 2: 232}
"""Registers of a thread of the consumers, by their number: what is left of the CTA's."""


def map_of_a(consumers: int) -> nvb.TensorMap:
    return nvb.TensorMap(f16, box=(WARPGROUP_ROWS * consumers, TILE_K))


def map_of_b(columns: int, cluster: int) -> nvb.TensorMap:
    return nvb.TensorMap(f16, box=(columns // cluster, TILE_K))


A = Annotated[nvb.TensorMap, map_of_a]
B = Annotated[nvb.TensorMap, map_of_b]
C = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(WARPGROUP_ROWS, 64))]


@nvb.kernel("sm_90a", threads=lambda consumers: 128 * (1 + consumers), cluster=lambda cluster: cluster, min_ctas=1)
def wide(
    k: nvb.KernelBuilder,
    a: A,
    b: B,
    c: C,
    tiles_m: i32,
    tiles_n: i32,
    steps: i32,
    *,
    columns: int = 256,
    consumers: int = 2,
    cluster: int = 2,
    stages: int = 3,
    group: int = 16,
) -> None:
    """A tile has 64 rows for each consumer. `tiles_m` is a multiple of the cluster, `group` tile rows go together."""
    rows = WARPGROUP_ROWS * consumers
    mma = k.tiled_mma(nvb.wgmma.mma_async(f"m64n{columns}k16", f16, f16, f32), warpgroups=(consumers, 1))
    ring = k.pipeline(stages, consumers, a=mma.smem_a(TILE_K), b=mma.smem_b(TILE_K), multicast=True)
    output = k.tma_epilogue(c, columns, consumers)
    k.tma.prefetch_maps(a, b, c)
    k.mbarrier.ready()
    bands = tiles_m // cluster
    tiles = lambda: k.range(k.cluster.id(), bands * tiles_n, k.cluster.count(), name="tile")  # noqa: E731

    def place(tile: nvb.Value) -> tuple[nvb.Value, nvb.Value]:
        band, n = k.grouped(tile, bands, tiles_n, max(1, group // cluster))
        return (band * cluster + k.cluster.rank()) * rows, n * columns

    with k.producer(registers=PRODUCER_REGISTERS):
        with tiles() as tile:
            row, column = place(tile)
            with k.range(steps) as step, ring.fill() as stage:
                k.tma.load(stage.a, a, (row, step * TILE_K), stage.full)
                k.tma.load(stage.b, b, (column, step * TILE_K), stage.full, multicast=True)
        ring.finish()

    with k.consumers(registers=REGISTERS[consumers]) as warpgroup:
        acc = mma.accumulator()
        with tiles() as tile:
            acc.clear()
            with k.range(steps), ring.drain(in_flight=1) as stage, k.wgmma.group(in_flight=1):
                mma.accumulate(acc, stage.a, stage.b, warpgroup)
            row, column = place(tile)
            reserved = output.reserve((row + warpgroup * WARPGROUP_ROWS, column), warpgroup)
            k.wgmma.wait_group(0, drains=[acc])
            ring.release()
            reserved.store(acc)
        output.finish()


@dataclass(frozen=True)
class Wide:
    """A choice of the constants."""

    columns: int = 256
    consumers: int = 2
    cluster: int = 2
    stages: int = 3

    @property
    def rows(self) -> int:
        """Rows of a tile."""
        return WARPGROUP_ROWS * self.consumers

    @property
    def kernel(self) -> nvb.KernelDefinition:
        return wide.with_(**asdict(self))

    def tiles(self, m: int, n: int) -> tuple[int, int]:
        """Tiles along M, in whole clusters, and along N."""
        return -(-m // (self.rows * self.cluster)) * self.cluster, -(-n // self.columns)

    def launch_of(self, m: int, n: int, depth: int, multiprocessors: int) -> tuple[int, tuple[int, ...]]:
        """The grid and the last arguments: no more CTAs than there are tiles, or multiprocessors."""
        tiles = self.tiles(m, n)
        grid = min(tiles[0] * tiles[1], multiprocessors // self.cluster * self.cluster)
        return grid, (*tiles, -(-depth // TILE_K))
