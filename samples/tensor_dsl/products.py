"""How each generation multiplies: how A and B are loaded, and which instruction multiplies them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import nvbackend as nvb
from nvbackend.tiled import make_tiled_mma
from samples.tensor_dsl.epilogue import Place
from samples.warp_tiles import ROWS, THREADS, WARPS, Rows, swizzled

Store = Callable[[nvb.TileValues, Place], None]
TILE = ROWS, ROWS  # of the result, of every target
TILE_K, STAGES = 64, 4


@dataclass(frozen=True)
class Cta:
    """What a CTA computes: the tile at `at` of A (m x depth) times B (n x depth), in `steps` along the depth."""

    k: nvb.KernelBuilder
    element: nvb.ElementType
    at: Place
    m: nvb.Value
    n: nvb.Value
    depth: nvb.Value
    steps: nvb.Value


def ampere(cta: Cta, a: nvb.Address, b: nvb.Address, store: Store) -> None:
    """cp.async fills a ring, mma.sync multiplies."""
    k, tile = cta.k, (cta.element, swizzled(cta.element))
    rows_a, rows_b = Rows(k, a, k.block_id("y"), cta.m, cta.depth), Rows(k, b, k.block_id("x"), cta.n, cta.depth)
    types = f"F32{cta.element.name.upper()}{cta.element.name.upper()}F32"
    mma = k.tiled_mma(make_tiled_mma(f"SM80_16x8x16_{types}_TN", WARPS, (32, 64, 16)), tile=TILE)
    acc = mma.accumulator()

    def fetch(step: nvb.Value, stage: nvb.Stage[nvb.Tensor]) -> None:
        rows_a.fetch(step, stage.a)
        rows_b.fetch(step, stage.b)

    with k.pipeline(STAGES, copies="cp.async", a=tile, b=tile).steps(cta.steps, fetch) as (_, stage):
        mma.accumulate(acc, stage.a, stage.b)
    store(acc.elements(), cta.at)


def load(cta: Cta, a: nvb.TensorMapParameter, b: nvb.TensorMapParameter, ring: Any) -> None:
    """TMA fills a ring with the tiles along the depth."""
    with cta.k.range(cta.steps) as step, ring.fill() as stage:
        cta.k.tma.load(stage.a, a, (cta.at[0], step * TILE_K), stage.full)
        cta.k.tma.load(stage.b, b, (cta.at[1], step * TILE_K), stage.full)


def hopper(cta: Cta, a: nvb.TensorMapParameter, b: nvb.TensorMapParameter, store: Store) -> None:
    """One warpgroup loads, two multiply by wgmma."""
    k = cta.k
    mma = k.tiled_mma(nvb.wgmma.mma_async("m64n128k16", cta.element, cta.element, nvb.f32), warpgroups=(2, 1))
    ring = k.pipeline(STAGES, 2, a=mma.smem_a(TILE_K), b=mma.smem_b(TILE_K))
    k.mbarrier.ready()
    with k.producer(registers=40):
        load(cta, a, b, ring)
    with k.consumers(registers=232) as warpgroup:
        acc = mma.accumulator()
        with k.range(cta.steps), ring.drain(in_flight=1) as stage, k.wgmma.group(in_flight=1):
            mma.accumulate(acc, stage.a, stage.b, warpgroup)
        k.wgmma.wait_group(0, drains=[acc])
        ring.release()
        store(acc.elements(warpgroup), cta.at)


def blackwell(cta: Cta, a: nvb.TensorMapParameter, b: nvb.TensorMapParameter, store: Store) -> None:
    """One thread loads, one multiplies into tensor memory by tcgen05, four warps store, some columns at a time."""
    k, columns = cta.k, 32
    mma = k.tiled_mma(nvb.tcgen05.mma(f"m{TILE[0]}n{TILE[1]}k16", cta.element, cta.element, nvb.f32))
    ring = k.pipeline(STAGES, consumers=1, a=mma.smem_a(TILE_K), b=mma.smem_b(TILE_K))
    multiplied = k.mbarrier.array(1, arrivals=1, name="multiplied")
    k.mbarrier.ready()
    with k.tcgen05.tmem(mma.columns) as accumulator:
        with k.one_thread(4):
            load(cta, a, b, ring)
        with k.one_thread(5):
            with k.range(cta.steps) as step, ring.feed() as stage:
                mma.accumulate(accumulator, stage.a, stage.b, accumulate=step > 0)
            k.tcgen05.commit(multiplied)
        with k.if_(k.warp_id() < 4):
            k.mbarrier.wait(multiplied, 0)
            k.tcgen05.fence_after_thread_sync()
            for first in range(0, TILE[1], columns):
                store(mma.load(accumulator, first, columns), (cta.at[0], cta.at[1] + first))


WAYS: dict[str, tuple[int, Callable[[nvb.ElementType], Any], Callable[[Cta, Any, Any, Store], None]]] = {
    # how many threads a CTA has, what A and B are to the kernel, and what multiplies them
    "sm_80": (THREADS, partial(nvb.Pointer, align=16), ampere),
    "sm_90a": (3 * 128, partial(nvb.TensorMap, box=(ROWS, TILE_K)), hopper),
    "sm_100a": (6 * 32, partial(nvb.TensorMap, box=(ROWS, TILE_K)), blackwell),
}
