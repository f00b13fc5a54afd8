"""Accumulators of 64 rows for each CTA, of f16, and of several atoms, loaded as elements: the simulator and NumPy.

Each kernel stores its elements by coordinates, reduces its rows and columns, and writes the tile by TMA.
"""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f16, f32
from nvbackend.layout import Layout

K = 64


@dataclass(frozen=True)
class Product:
    """A product of `tile` (M, N) of the group by `shape`, with D in `d`; panels are (first column, columns)."""

    shape: str
    tile: tuple[int, int]
    d: nvb.ElementType = f32
    ctas: int = 1
    panels: tuple[tuple[int, int], ...] = ()
    by_address: bool = False
    """Whether it is read at a plain address of tensor memory."""

    @property
    def rows(self) -> int:
        return self.tile[0] // self.ctas


PRODUCTS = {
    "64 rows": Product("m64n32k16", (64, 32)),
    "64 rows of f16, in panels": Product("m64n32k16", (64, 32), f16, panels=((0, 26), (26, 2), (28, 4))),
    "64 rows, two atoms along M": Product("m64n32k16", (128, 32)),
    "64 rows, two atoms along N": Product("m64n32k16", (64, 64), f16),
    "256 rows of f16, in panels": Product("m128n32k16", (256, 32), f16, panels=((0, 19), (19, 13))),
    "128 rows, in panels, by address": Product("m128n32k16", (128, 32), panels=((0, 19), (19, 13)), by_address=True),
    "64 rows of a pair": Product("m128n32k16", (128, 32), f16, ctas=2),
}


def kernel_of(product: Product, target: str = "sm_100a") -> nvb.KernelBuilder:
    n, rows, ctas = product.tile[1], product.rows, product.ctas
    maps = {
        "a": nvb.TensorMap(f16, box=(rows, K)),
        "b": nvb.TensorMap(f16, box=(n // ctas, K)),
        "d": nvb.TensorMap(f32, box=(rows, 32)),
    }
    pointers = {name: nvb.Pointer(f32) for name in ("c", "most", "sums")}
    parameters = [nvb.Parameter(name, kind) for name, kind in (maps | pointers).items()]
    k = nvb.KernelBuilder("product", target, threads=128, cluster=ctas, parameters=parameters)
    a, b, d, c, most, sums = k.arguments
    mma = k.tiled_mma(nvb.tcgen05.mma(product.shape, f16, f16, product.d, cta_group=ctas), tile=product.tile)
    tile_a, tile_b = k.shared_tile(mma.smem_a(K)), k.shared_tile(mma.smem_b(K))
    output = k.tma_epilogue(d, n, rows=rows)
    full, done = k.mbarrier.array(1, arrivals=1), k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    rank = k.cluster.rank().to(nvb.s32) if ctas > 1 else 0
    with k.tcgen05.tmem(mma.columns, cta_group=ctas) as accumulators:
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=tile_a.layout.bytes + tile_b.layout.bytes)
            k.tma.load(tile_a, a, (rank * rows, 0), full)
            k.tma.load(tile_b, b, (rank * (n // ctas), 0), full)
        k.mbarrier.wait(full, 0)
        if ctas > 1:
            k.cluster.sync()
        with k.one_thread(), k.if_(rank == 0) if ctas > 1 else nullcontext():
            mma.accumulate(accumulators, tile_a, tile_b, accumulate=False)
            k.tcgen05.commit(done, cta_group=ctas, multicast_mask=0b11 if ctas > 1 else None)
        k.mbarrier.wait(done, 0)
        k.tcgen05.fence_after_thread_sync()
        first_row = rank * rows
        for panel, (first, width) in enumerate(product.panels or ((0, n),)):
            x = mma.load(accumulators.address if product.by_address else accumulators, first, width).to(f32)
            placed = x + x.rows(lambda row: row.to(f32) * 1000) + x.columns(lambda column: column.to(f32) * 0.125)
            placed.store(k.tensor(c + first_row * n + first, Layout((rows, width), (n, 1))))
            for row, value in x.reduce_rows("max").items():
                most[(first_row + row) * 4 + panel] = value
            by_column = x.reduce_columns("add")
            with k.if_(by_column.owned()):
                for column, value in by_column.items():
                    sums[rank * n + first + column] = value
            if not product.panels:
                reserved = output.reserve((first_row, 0), 0)
                reserved.store(x + 1.0)
                output.finish()
    return k


@pytest.mark.parametrize("name", PRODUCTS)
def test_elements_are_those_of_the_product(name: str) -> None:
    product = PRODUCTS[name]
    (m, n), ctas = product.tile, product.ctas
    random = np.random.default_rng(7)
    a, b = (random.integers(-3, 4, (count, K)).astype(np.float16) for count in (m, n))
    d, c = np.zeros((m, n), np.float32), np.full((m, n), 7777, np.float32)
    most, sums = np.zeros((m, 4), np.float32), np.zeros((ctas, n), np.float32)
    loaded = nvb.runtime.load(kernel_of(product).finish().compile(assemble=False), device="simulator")
    loaded.launch(ctas, a, b, d, c, most, sums)
    right = a.astype(np.float32) @ b.astype(np.float32).T
    panels = product.panels or ((0, n),)
    columns = np.concatenate([np.arange(width) for _, width in panels])
    assert np.array_equal(c, right + 1000 * (np.arange(m) % product.rows)[:, None] + columns / 8)
    assert np.array_equal(
        most[:, : len(panels)], np.stack([right[:, at : at + width].max(1) for at, width in panels], 1)
    )
    assert np.array_equal(sums, right.reshape(ctas, product.rows, n).sum(1))
    if not product.panels:
        assert np.array_equal(d, right + 1)


@pytest.mark.parametrize(("name", "target"), [("64 rows", "sm_103a"), ("64 rows of f16, in panels", "sm_100a")])
def test_ptxas_assembles_the_loads_of_half_warps(name: str, target: str) -> None:
    compiled = kernel_of(PRODUCTS[name], target).finish().compile()
    assert compiled.cubin
    loads = re.findall(r"tcgen05\.ld\.sync\.aligned\.(\S+)\.b32 .*, (\d+);", compiled.ptx)
    wide = [("16x32bx2.x16", "16")]
    packed = [("16x32bx2.x4.pack::16b", "13"), ("16x32bx2.x2.pack::16b", "13"), ("16x32bx2.x1", "13")]
    assert loads == (wide if target == "sm_103a" else [*packed, ("16x32bx2.x1", "1"), ("16x32bx2.x1.pack::16b", "2")])


@pytest.mark.parametrize(
    ("shape", "tile", "columns", "fix"),
    [
        ("m64n32k16", (64, 32), (0, 31), "load an even number of columns, such as 32"),
        ("m64n32k16", (64, 64), (0, 48), "load columns 0 to 31 together"),
        ("m64n32k16", (64, 64), (32, 32), "load columns 0 to 63 together"),
        ("m128n32k16", (128, 64), (32, 16), "load columns 32 to 63 together"),
        ("m128n64k16", (128, 64), (0, 65), "load columns 0 to 63 at most"),
        ("m128n64k16", (128, 64), (0, 0), "load columns 0 to 63 at most"),
    ],
)
def test_parts_that_threads_cannot_share_alike_are_refused(
    shape: str, tile: tuple[int, int], columns: tuple[int, int], fix: str
) -> None:
    pair = (shape, tile) == ("m128n32k16", (128, 64))
    k = nvb.KernelBuilder("k", "sm_100a", threads=128, cluster=2 if pair else 1)
    mma = k.tiled_mma(nvb.tcgen05.mma(shape, f16, f16, f32, cta_group=2 if pair else 1), tile=tile)
    allocation = k.tcgen05.tmem(128, cta_group=2 if pair else 1)
    with allocation as accumulators, pytest.raises(nvb.DiagnosticError) as refused:
        mma.load(accumulators, *columns)
    assert [(found.rule_id, found.fix) for found in refused.value.diagnostics] == [("mma.tile-lanes", fix)]


@pytest.mark.parametrize("threads", [32, 96])
def test_fewer_than_four_warps_do_not_reach_every_lane(threads: int) -> None:
    """They would leave rows out, without a word."""
    k = nvb.KernelBuilder("k", "sm_100a", threads=threads)
    mma = k.tiled_mma(nvb.tcgen05.mma("m128n64k16", f16, f16, f32))
    with k.tcgen05.tmem(64) as accumulators, pytest.raises(nvb.DiagnosticError) as refused:
        mma.load(accumulators)
    (found,) = refused.value.diagnostics
    assert (found.rule_id, found.fix) == ("mma.tile-lanes", "give the CTA 128 threads or more")
    assert found.message.endswith(
        f"the CTA has {threads} threads, and each of four warps reaches a quarter of the lanes"
    )
