"""Fixes that count who comes: what arrives at an mbarrier, and what writes over a store. Following one mends it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import nvbackend as nvb
from nvbackend import Pointer, f32, i32
from tests.support.runtime import broken

F32 = Pointer[f32]


@pytest.mark.parametrize("several", [1, 2])
def test_arrivals_that_are_too_many_are_all_counted_in_the_fix(several: int) -> None:
    """Of each warpgroup all threads arrive; what the fix says to count, or one thread of each, mends it."""

    def kernel(count: int, *, elected: bool = False) -> Sequence[nvb.Diagnostic]:
        @nvb.kernel("sm_90a", threads=128 * several + 32)
        def ring(k, x: Pointer(f32, align=16), y: F32, steps: i32(minimum=1)):
            tile = k.shared(f32, 32, align=16, name="tile")
            full, empty = k.mbarrier.array(1, 1, name="full"), k.mbarrier.array(1, count, name="empty")
            k.mbarrier.ready()
            with k.if_(k.warp_id() == 4 * several), k.one_thread(4 * several), k.range(steps) as step:
                k.mbarrier.wait(empty, step & 1 ^ 1)
                k.mbarrier.arrive(full, expect_tx=128)
                k.bulk.load(tile, x + step * 32, 128, full)
            with k.if_(k.warp_id() < 4 * several), k.range(steps) as step:
                k.mbarrier.wait(full, step & 1)
                y[step * 32 + k.thread_id() % 32] = tile[k.thread_id() % 32]
                if elected:
                    k.barrier.sync(1, 128 * several)
                    with k.if_(k.thread_id() % 128 == 0):
                        k.mbarrier.arrive(empty)
                else:
                    k.mbarrier.arrive(empty)

        return broken(ring.build)

    (found,) = kernel(several)
    assert found.rule_id == "mbarrier.arrivals"
    assert f"initialise empty to {128 * several}, or let fewer threads arrive, {several} in all" in (found.fix or "")
    assert not kernel(128 * several)
    assert not kernel(several, elected=True)


@pytest.mark.parametrize(("writers", "sync"), [(1, "k.warp.sync()"), (2, "k.barrier.sync(number, threads)")])
def test_who_writes_after_a_store_meets_the_lane_that_waited(writers: int, sync: str) -> None:
    """One warp by itself; several at a barrier, which a warp more has no part in."""

    def kernel(met: str) -> Sequence[nvb.Diagnostic]:
        @nvb.kernel("sm_90a", threads=32 * writers + 32)
        def stored(k, y: Pointer(f32, align=16), steps: i32(minimum=1)):
            words, thread = k.shared(f32, 32 * writers, align=128, name="words"), k.thread_id()
            with k.if_(k.warp_id() < writers), k.range(steps) as step:
                with k.if_(thread == 0):
                    k.tma.wait_group(0, reading=True)
                if met == "k.warp.sync()":
                    k.warp.sync()
                elif met:
                    k.barrier.sync(1, 32 * writers)
                words[thread] = 1.0
                k.fence.proxy_async()
                k.barrier.sync(2, 32 * writers)
                with k.if_(thread == 0):
                    k.bulk.store(y + step * 32 * writers, words, 128 * writers)
                    k.tma.commit_group()
            with k.if_(thread == 0):
                k.tma.wait_group(0)

        return broken(stored.build)

    (found,) = kernel("")
    assert found.rule_id == "proxy.write-in-flight"
    assert (found.fix or "").startswith(f"put {sync} before line")
    assert not kernel(sync)


def test_two_groups_in_turns_may_have_meant_words_of_their_own() -> None:
    """Each group of two warps sums rows of its own, meets at a barrier of its own, and gives the row back."""

    def kernel(words: int) -> Sequence[nvb.Diagnostic]:
        @nvb.kernel("sm_90a", threads=160)
        def rows(k, x: Pointer(f32, align=16), y: F32, count: i32(minimum=1)):
            row, parts = k.shared(f32, 4 * 64, align=16, name="row"), k.shared(f32, 4, name="parts")
            full, empty = (k.mbarrier.array(4, 1, name=name) for name in ("full", "empty"))
            k.mbarrier.ready()
            warp, lane, thread = k.warp_id(), k.lane_id(), k.thread_id()
            with k.if_(warp == 4), k.one_thread(4), k.range(count) as step:
                k.mbarrier.wait(empty + step % 4, step // 4 & 1 ^ 1)
                k.mbarrier.arrive(full + step % 4, expect_tx=256)
                k.bulk.load(row + step % 4 * 64, x + step * 64, 256, full + step % 4)
            group = warp // 2
            with k.if_(warp < 4), k.range(group, count, 2) as step:
                k.mbarrier.wait(full + step % 4, step // 4 & 1)
                total = k.warp.reduce("add", row[step % 4 * 64 + thread % 64])
                with k.if_(lane == 0):
                    parts[group * words + warp % 2] = total
                k.barrier.sync(1 + group, 64)
                y[step * 64 + thread % 64] = parts[group * words] + parts[group * words + 1]
                k.barrier.sync(1 + group, 64)
                k.mbarrier.arrive(empty + step % 4, when=thread % 64 == 0)

        return broken(rows.build)

    (found,) = kernel(0)
    assert found.rule_id == "shared.missing-barrier"
    assert "has data of its own, let each of the two use other words" in (found.fix or "")
    assert not kernel(2)
