"""Operands that threads copy by cp.async for the tensor core: FlashAttention's pages, and tiles that TMA stores."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import f16
from tests.dry_run.kernels.parts import COUNT, MATRIX, OUT, TILE, State, chunk_of, copied, gemm, multiply, named
from tests.dry_run.registry import Mistake, scene

STYLE = "cp.async and wgmma"


def _copy(k, tile, source, pitch):
    """A warpgroup copies 64 rows of 128 bytes: two threads a row, four chunks each."""
    row, half = k.thread_id() % 64, k.thread_id() // 64 % 2
    for part in range(4):
        chunk = half * 4 + part
        k.cp_async.copy(chunk_of(tile, row, chunk), source.byte_offset(row * pitch + chunk * 16, align=16), 16)


@scene(
    STYLE,
    lambda: [gemm(1, 1, steps, steps) for steps in (1, 2, 5)],
    why="The copies arrive themselves; who multiplies fences after its wait.",
    variants={"by_groups": "The copying threads wait for their own copies, fence and arrive."},
    no_fence=Mistake("proxy-fence", "cp.async writes through the generic proxy, and no fence follows."),
    producer_fences=Mistake("proxy-fence", "The fence comes before the copies have come."),
    one_warp_fences=Mistake("proxy-fence", "The first warp of those that multiply fences for all."),
)
@nvb.kernel("sm_90a", threads=256, min_ctas=1)
def pages(k, a: nvb.Pointer[f16], b: nvb.Pointer[f16], c: OUT, steps: COUNT, *, mistake=None):
    wrong, stages = named(mistake), 2
    ta, tb = (k.shared_tiles(TILE, stages, name=name) for name in "ab")
    full, empty = (k.mbarrier.array(stages, arrivals=128, name=name) for name in ("full", "empty"))
    k.mbarrier.ready()
    with k.if_(k.warpgroup_id() == 0):
        write = State(k, stages, 1)
        with k.range(steps) as step:
            k.mbarrier.wait(empty + write.index, write.phase)
            for tiles, source in ((ta, a), (tb, b)):
                _copy(k, tiles.at(write.index), source.byte_offset(step * 128, align=16), steps * 128)
            if wrong("producer_fences"):
                k.fence.proxy_async()
            if wrong("by_groups"):
                k.cp_async.commit_group()
                k.cp_async.wait_group(0)
                k.fence.proxy_async()
                k.mbarrier.arrive(full + write.index)
            else:
                k.cp_async.mbarrier_arrive(full + write.index, no_increment=True)
            write.advance()
    with k.else_():
        acc, read = k.wgmma.accumulator(64), State(k, stages)
        with k.range(steps):
            k.mbarrier.wait(full + read.index, read.phase)
            if wrong("one_warp_fences"):
                with k.if_(k.warp_id() == 4):
                    k.fence.proxy_async()
            elif not wrong("no_fence") and not wrong("producer_fences") and not wrong("by_groups"):
                k.fence.proxy_async()
            with k.wgmma.group():
                multiply(k, acc, ta.at(read.index), tb.at(read.index))
            k.mbarrier.arrive(empty + read.index)
            read.advance()
        k.store_accumulator(acc, c, 64)


@scene(
    STYLE,
    copied(1, 3),
    why="All threads copy, wait for their own copies, and fence before they meet.",
    variants={"issuer_fences": "The thread that stores fences, after the barrier."},
    no_fence=Mistake("proxy-fence", "What cp.async has copied is stored by TMA with no fence between."),
    fence_before_the_wait=Mistake("proxy-fence", "The fence comes before the wait for the copies."),
)
@nvb.kernel("sm_90", threads=128)
def moved(k, x: nvb.Pointer[f16], y: MATRIX, tiles: COUNT, *, mistake=None):
    """Tiles that come by cp.async and go by TMA."""
    wrong, tile = named(mistake), k.shared_tile(TILE, name="tile")
    with k.range(tiles) as number:
        _copy(k, tile, x.byte_offset(number * TILE.bytes, align=16), 128)
        k.cp_async.commit_group()
        if wrong("fence_before_the_wait"):
            k.fence.proxy_async()
        k.cp_async.wait_group(0)
        if not mistake:
            k.fence.proxy_async()
        k.barrier.sync()
        with k.one_thread():
            if wrong("issuer_fences"):
                k.fence.proxy_async()
            k.tma.store(y, (number * 64, 0), tile)
            k.tma.commit_group()
            k.tma.wait_group(reading=True)
        k.barrier.sync()
