"""Mistakes of two steps, each of which data may keep threads from: told where everybody takes both, and only there.

Whether anybody comes to a step under a condition of data is not known: maybe nobody does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext

import pytest

import nvbackend as nvb
from nvbackend import f16, f32, i32, u32
from tests.support.proxy_program import MMA, TILE
from tests.support.runtime import rules

MATRIX = nvb.TensorMap(f16, box=(64, 64), swizzle=128)
SHAPE = nvb.InstructionDescriptor(kind="f16", m=64, n=64, a=f16, b=f16, d=f32)
Gate = Callable[[], AbstractContextManager[object]]
Wrong = Callable[..., None]


def load(k, tile, matrix, full):
    k.mbarrier.arrive(full, expect_tx=tile.layout.bytes)
    k.tma.load_box(tile.address, matrix, (0, 0), full)


def read_before_wait(k, gates: Iterator[Gate], matrix, out, filled=0):
    """Each warpgroup multiplies a tile of its own: which of them the copy fills, the numbers of threads tell."""
    tiles, full = k.shared_tiles(TILE, 3), k.mbarrier.array(1, arrivals=1)
    acc = k.wgmma.accumulator(64)
    k.mbarrier.ready()
    tiles.at(0).address.cast(u32).byte_offset(k.thread_id() * 16, align=16).store(0, 0, 0, 0)
    k.fence.proxy_async()
    k.barrier.sync()
    tile = tiles.at(k.uniform(k.thread_id() // 128))
    with next(gates)(), k.one_thread():
        load(k, tiles.at(filled), matrix, full)
    with next(gates)(), k.wgmma.group(in_flight=0):
        k.wgmma.mma_async(acc, tile, tile, MMA, a_at=(0, 0), b_at=(0, 0))


def waited_by_others(k, gates: Iterator[Gate], matrix, out):
    tile, full = k.shared(f16, 64 * 64, align=1024), k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    with next(gates)(), k.one_thread():
        k.mbarrier.arrive(full, expect_tx=64 * 64 * 2)
        k.tma.load_box(tile, matrix, (0, 0), full)
    with k.if_(k.warp_id() == 1):
        k.mbarrier.wait(full, 0)
    with next(gates)():
        out[k.thread_id()] = tile[k.thread_id()]


def refill_in_flight(k, gates: Iterator[Gate], matrix, out):
    tile = k.shared_tile(TILE)
    full, done = k.mbarrier.array(1, arrivals=1), k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    with k.tcgen05.tmem(64) as columns:
        with next(gates)(), k.one_thread():
            k.tcgen05.mma(nvb.Tcgen05Request("f16"), columns, tile, tile, SHAPE, accumulate=False)
            k.tcgen05.commit(done)
        with next(gates)(), k.one_thread():
            load(k, tile, matrix, full)
        k.mbarrier.wait(done, 0)
        k.tcgen05.fence_after_thread_sync()


def missing_barrier(k, gates: Iterator[Gate], matrix, out):
    memory = k.shared(f16, 256)
    with next(gates)():
        memory[k.thread_id()] = 1.0
    with next(gates)():
        out[k.thread_id()] = memory[k.thread_id() ^ 64]


def out_of_bounds(k, gates: Iterator[Gate], matrix, out):
    memory = k.shared(f16, 255)
    with next(gates)():
        memory[k.thread_id()] = 1.0
    with next(gates)():
        out[0] = 1.0


WRONG: dict[str, tuple[Wrong, str, tuple[bool, bool]]] = {
    "proxy.read-before-wait": (read_before_wait, "sm_90a", (True, True)),
    "proxy.waited-by-others": (waited_by_others, "sm_90a", (True, True)),
    "proxy.refill-in-flight": (refill_in_flight, "sm_100a", (True, True)),
    "shared.missing-barrier": (missing_barrier, "sm_90a", (True, True)),
    "shared.bounds": (out_of_bounds, "sm_90a", (True, False)),
}
"""By rule: the program, its target, and whether each of its two steps is needed for the mistake."""


@pytest.mark.parametrize("closed", [(), (0,), (1,), (0, 1)], ids=str)
@pytest.mark.parametrize("rule", WRONG)
def test_a_step_that_data_decides_about(rule: str, closed: tuple[int, ...]) -> None:
    program, target, needed = WRONG[rule]

    @nvb.kernel(target, threads=256)
    def kernel(k, matrix: MATRIX, data: nvb.Pointer[i32], out: nvb.Pointer[f16]):
        gates = ((lambda: k.if_(data[k.thread_id()] > 3)) if step in closed else nullcontext for step in range(2))
        program(k, gates, matrix, out)

    assert (rule in rules(kernel.build)) == (not any(needed[step] for step in closed))


@pytest.mark.parametrize("filled", range(3))
def test_the_tile_of_a_warpgroup(filled: int) -> None:
    """There are two warpgroups, and nobody multiplies the third tile."""

    @nvb.kernel("sm_90a", threads=256)
    def kernel(k, matrix: MATRIX, out: nvb.Pointer[f16]):
        read_before_wait(k, iter((nullcontext, nullcontext)), matrix, out, filled)

    assert ("proxy.read-before-wait" in rules(kernel.build)) == (filled < 2)


@pytest.mark.parametrize("reads", [False, True])
def test_a_copy_of_some_launches(reads: bool) -> None:
    """Where the host may leave the copy out, nothing is said of the read, under a condition or not."""

    @nvb.kernel("sm_90a", threads=256)
    def kernel(k, matrix: MATRIX, out: nvb.Pointer[f16], n: i32):
        gates = (lambda: k.if_(n > 3), (lambda: k.if_(n > 4)) if reads else nullcontext)
        read_before_wait(k, iter(gates), matrix, out)

    assert "proxy.read-before-wait" not in rules(kernel.build)
