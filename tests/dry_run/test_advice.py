"""Fixes and reasons that depend on what the kernel has already: following one mends it."""

from __future__ import annotations

from typing import Annotated, Any
from unittest import mock

import pytest

import nvbackend as nvb
from nvbackend import Pointer, f16, f32, i32, u32
from tests.dry_run.kernels.clusters import multicast
from tests.support.runtime import broken, rules

F32 = Pointer[f32]
Box = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(64, 64))]
HalfBox = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(32, 64))]


def copied_a_row_ahead(meets: bool) -> nvb.KernelDefinition:
    @nvb.kernel("sm_80", threads=128)
    def rows(k, x: F32, y: F32, count: i32(minimum=1)):
        thread, row = k.thread_id(), k.shared(f32, 256, align=16, name="row")

        def fetch(step: Any) -> None:
            k.cp_async.copy(row + (step % 2 * 128 + thread), x + (step * 128 + thread), 4)

        fetch(k.const(0, i32))
        k.cp_async.commit_group()
        with k.range(count) as step:
            with k.if_(step + 1 < count):
                fetch(step + 1)
            k.cp_async.commit_group()
            k.cp_async.wait_group(1)
            if meets:
                k.barrier.sync()
            y[step * 128 + thread] = row[step % 2 * 128 + (127 - thread)]
            k.barrier.sync()
        k.cp_async.wait_group(0)

    return rows


def test_where_threads_wait_for_their_own_copies_the_barrier_alone_is_missing() -> None:
    (found,) = broken(copied_a_row_ahead(meets=False).build)
    assert found.rule_id == "async-copy.read-before-wait"
    assert "and put k.barrier.sync() after that, before line" in (found.fix or "")
    assert "wait_group" not in (found.fix or "")  # which is there
    assert rules(copied_a_row_ahead(meets=True).build) == []


@pytest.mark.parametrize(("count", "is_said"), [(32, True), (64, False)])
def test_a_crowd_of_other_counts_says_what_they_counted(count: int, is_said: bool) -> None:
    @nvb.kernel("sm_90a", threads=96)
    def crowd(k):
        with k.if_(k.warp_id() == 0):
            k.barrier.sync(1, count)
        with k.if_(k.warp_id() == 1):
            k.barrier.arrive(1, 64)
        with k.if_(k.warp_id() == 2):
            k.barrier.sync(1, 64)

    messages = [found.message for found in broken(crowd.build)]
    assert any("and they counted 32 threads" in message for message in messages) == is_said


def test_an_index_that_the_grid_bounds_is_not_judged_further_on() -> None:
    """Causal: a CTA makes as many steps as its place says. A grid of two keeps within the array."""

    @nvb.kernel("sm_90a", threads=128)
    def causal(k, x: F32, y: F32):
        thread, rows = k.thread_id(), k.shared(f32, 2 * 128, align=16, name="rows")
        full = k.mbarrier.array(2, arrivals=1, name="full")
        place = k.shared(f32, 2 * 128, name="place")
        k.mbarrier.ready()
        place[k.block_id() * 128 + thread] = x[thread]
        with k.range(k.block_id() + 1) as step:
            with k.if_(thread == 0):
                k.mbarrier.arrive(full + step % 2, expect_tx=512)
                k.bulk.load(rows + step % 2 * 128, x + step * 128, 512, full + step % 2)
            k.mbarrier.wait(full + step % 2, step // 2 & 1)
            y[step * 128 + thread] = rows[step % 2 * 128 + (127 - thread)] + place[k.block_id() * 128 + thread]
            k.barrier.sync()

    assert rules(causal.build) == []


def test_a_wait_that_is_there_is_not_asked_for() -> None:
    """The consumer waits for its product, and has multiplied the stage after the one that it gives back."""

    @nvb.kernel("sm_90a", threads=256)
    def off_by_one(k, a: nvb.TensorMap(f16, box=(64, 64)), steps: i32, *, wrong=True):
        mma = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32))
        tiles = k.shared_tiles(mma.smem_a(64), 2, name="tiles")
        full, empty = (k.mbarrier.array(2, arrivals=1, name=name) for name in ("full", "empty"))
        k.mbarrier.ready()
        with k.if_(k.warpgroup_id() == 0), k.one_thread(), k.range(steps) as step:
            k.mbarrier.wait(empty + step % 2, step // 2 & 1 ^ 1)
            k.mbarrier.arrive(full + step % 2, expect_tx=8192)
            k.tma.load(tiles.at(step % 2), a, (0, 0), full + step % 2)
        with k.if_(k.warpgroup_id() == 1):
            acc = mma.accumulator()
            with k.range(steps) as step:
                k.mbarrier.wait(full + step % 2, step // 2 & 1)
                read = k.select(step < 2, step % 2, (step + 1) % 2) if wrong else step % 2
                with k.wgmma.group(in_flight=0):
                    mma.accumulate(acc, tiles.at(read), tiles.at(read))
                k.mbarrier.arrive(empty + step % 2, when=k.thread_id() == 128)

    (found,) = broken(off_by_one.build)
    assert found.rule_id == "proxy.refill-in-flight"
    assert "wait_group" not in (found.fix or "") and "correct the count of stages of warpgroup 1" in (found.fix or "")
    assert rules(lambda: off_by_one.build(wrong=False)) == []


def test_roles_meet_at_an_mbarrier_and_not_at_a_barrier_of_the_cta() -> None:
    @nvb.kernel("sm_90", threads=160)
    def roles(k, x: F32, y: F32, steps: i32):
        thread, row = k.thread_id(), k.shared(f32, 128, align=16, name="row")
        full = k.mbarrier.array(1, arrivals=1, name="full")
        k.mbarrier.ready()
        with k.if_(k.warp_id() == 4), k.one_thread(4), k.range(steps) as step:
            with k.if_(step > 0):
                k.mbarrier.wait(full, step - 1 & 1)
            k.mbarrier.arrive(full, expect_tx=512)
            k.bulk.load(row, x + step * 128, 512, full)
        with k.if_(k.warp_id() < 4), k.range(steps) as step:
            k.mbarrier.wait(full, step & 1)
            y[step * 128 + thread] = row[thread]

    found = next(one for one in broken(roles.build) if one.rule_id == "proxy.refill")
    assert "k.mbarrier.arrive" in (found.fix or "") and "k.barrier.sync" not in (found.fix or "")


def test_who_never_waits_is_named() -> None:
    """And not who waits for it, with the right parity."""

    @nvb.kernel("sm_90", threads=64)
    def never(k, x: Pointer(i32), steps: i32):
        word = k.shared(i32, 1, name="word")
        full, empty = (k.mbarrier.array(1, arrivals=1, name=name) for name in ("full", "empty"))
        k.mbarrier.ready()
        with k.if_(k.thread_id() == 32), k.range(steps) as step:
            k.mbarrier.wait(empty, step & 1 ^ 1)
            word[0] = step
            k.mbarrier.arrive(full)
        with k.if_(k.thread_id() == 0), k.range(steps) as step:
            x[step] = word[0]
            k.mbarrier.arrive(empty)

    said = [found for found in broken(never.build) if found.rule_id == "dry-run.overrun"]
    assert ["let warp 0 wait for" in (found.fix or "") for found in said] == [True]


@pytest.mark.parametrize("given_back", [False, True])
def test_an_arrival_that_one_cta_of_two_gets(given_back: bool) -> None:
    """Each CTA brings half of a row to both: CTA 1 waits to go on, and so its bytes are missing in CTA 0."""

    @nvb.kernel("sm_90a", threads=128, cluster=2)
    def kernel(k, x: nvb.Pointer[f32], y: nvb.Pointer[f32], rows: i32(minimum=4)):
        row, thread, rank = k.shared(f32, 128, align=128), k.thread_id(), k.cluster.rank()
        full, empty = k.mbarrier.array(1, arrivals=1, name="full"), k.mbarrier.array(1, arrivals=2, name="empty")
        k.mbarrier.ready()
        with k.range(rows) as step:
            with k.if_(thread == 0):
                k.mbarrier.wait(empty, (step & 1) ^ 1)
                k.mbarrier.arrive(full, expect_tx=512)
                k.bulk.load(row + rank * 64, x + step * 128 + rank * 64, 256, full, multicast_mask=3)
            k.mbarrier.wait(full, step & 1)
            y[rank * rows * 128 + step * 128 + thread] = row[127 - thread]
            k.barrier.sync()
            with k.if_(thread < (2 if given_back else 1)):
                k.mbarrier.arrive(empty, rank=thread)
        with k.if_(thread == 0):
            k.mbarrier.wait(empty, (rows & 1) ^ 1)
        k.cluster.sync()

    if given_back:
        kernel.build()
        return
    with mock.patch("nvbackend.isel.verify.verify.verify", return_value=()):
        (diagnostic,) = broken(kernel.build)
    assert diagnostic.rule_id == "mbarrier.deadlock"
    assert "of CTA 1 too" in (diagnostic.fix or "")
    assert "rank=1" in (diagnostic.fix or "")


def test_a_ring_that_peers_fill_says_so_where_it_is_made() -> None:
    """Each of two CTAs loads half of B for both, into a ring whose stages only its own consumers give back."""

    def shared(multicast: bool) -> nvb.KernelDefinition:
        @nvb.kernel("sm_90a", threads=256, cluster=2)
        def product(k, a: Box, b: HalfBox, out: F32, steps: i32):
            mma = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32))
            ring = k.pipeline(2, consumers=1, a=mma.smem_a(64), b=mma.smem_b(64), multicast=multicast)
            k.mbarrier.ready()
            with k.if_(k.warpgroup_id() == 0), k.one_thread():
                with k.range(steps) as step, ring.fill() as stage:
                    k.tma.load(stage.a, a, (k.block_id() * 64, step * 64), stage.full)
                    k.tma.load(stage.b, b, (0, step * 64), stage.full, multicast=True)
                ring.finish()
            with k.else_():
                acc = mma.accumulator()
                with k.range(steps), ring.drain() as stage, k.wgmma.group():
                    mma.accumulate(acc, stage.a, stage.b)
                k.store_accumulator(acc, out + k.block_id() * 4096, stride=64)

        return product

    found = broken(shared(multicast=False).build)[0]
    assert found.rule_id == "proxy.refill-in-flight"
    assert (found.fix or "").endswith(" and count that, as k.pipeline(..., multicast=True) does it")
    assert rules(shared(multicast=True).build) == []


@pytest.mark.parametrize("missing", ["st", "ld"])
def test_the_own_wait_of_a_warp_comes_between_its_two_accesses(missing: str) -> None:
    """At columns that follow from the round: of a store that is read, and of a load that is overwritten."""

    @nvb.kernel("sm_100a", threads=128)
    def columns(k, x: F32, y: F32, rows: i32):
        with k.tcgen05.tmem(32) as tmem, k.range(rows) as step:
            mine = tmem.lanes(k.warp_id() * 32) + (step & 3).to(u32)
            word = x[step * 128 + k.thread_id()].bitcast(u32)
            k.tcgen05.st(mine, "32x32b", [word])
            if missing == "ld":
                k.tcgen05.wait_st()
            load = k.tcgen05.ld(mine, "32x32b", 1)
            if missing == "ld":
                k.tcgen05.st(mine, "32x32b", [word])
            k.tcgen05.wait_st()
            k.tcgen05.wait_ld(load)
            y[step * 128 + k.thread_id()] = load.values[0].bitcast(f32)

    found = broken(columns.build)
    if missing == "ld":
        assert not found  # a warp's own loads are done before its stores
        return
    (one,), ((_, first),) = found, found[0].notes
    assert one.rule_id == "tcgen05.missing-wait"
    assert first is not None and one.location is not None
    assert first.line < one.location.line
    assert one.fix == f"put k.tcgen05.wait_st() between line {first.line} and line {one.location.line}"


def test_copies_of_two_ctas_to_one_place_are_told_to_fill_other_bytes() -> None:
    """No barrier of the cluster would make room for both: the right kernel has the CTA's rank in the place."""
    with pytest.raises(nvb.DiagnosticError) as caught:
        multicast.with_(mistake="second_half_in_the_first_place").build()
    (found,) = caught.value.diagnostics
    assert found.rule_id == "dry-run.two-writers"
    assert found.fix is not None
    assert "by k.cluster.rank() in the place of the destination" in found.fix
    assert "sync" not in found.fix
    assert multicast.build().diagnostics == ()


@nvb.kernel("sm_90", threads=128)
def swapped(k, x: Pointer(f32, align=16), y: F32, *, mended: bool = False):
    """Each of two copies completes on the mbarrier of the other."""
    one, other, thread = k.shared(f32, 256, align=16), k.shared(f32, 128, align=16), k.thread_id()
    first, second = (k.mbarrier.array(1, arrivals=1, name=name) for name in ("first", "second"))
    k.mbarrier.ready()
    with k.one_thread():
        k.mbarrier.arrive(first, expect_tx=1024)
        k.bulk.load(one, x, 1024, first if mended else second)
        k.mbarrier.arrive(second, expect_tx=512)
        k.bulk.load(other, x, 512, second if mended else first)
    k.mbarrier.wait(first, 0)
    k.mbarrier.wait(second, 0)
    y[thread] = one[thread] + other[thread]


def test_copies_on_one_anothers_mbarriers_change_places() -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        swapped.build()
    (found,) = caught.value.diagnostics
    assert found.rule_id == "mbarrier.wrong-barrier"
    assert found.fix is not None
    assert "complete on mbarrier first, and the cp.async.bulk of line" in found.fix
    assert found.fix.endswith("on mbarrier second")
    assert swapped.with_(mended=True).build().diagnostics == ()


def test_a_copy_without_announced_bytes_goes_where_they_are_announced() -> None:
    @nvb.kernel("sm_90", threads=128)
    def rows(k, x: Pointer(f32, align=16), y: F32, *, mended: bool = False):
        row, thread = k.shared(f32, 128, align=16), k.thread_id()
        full, empty = (k.mbarrier.array(1, arrivals=1, name=name) for name in ("full", "empty"))
        k.mbarrier.ready()
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=512)
            k.bulk.load(row, x, 512, full if mended else empty)
            k.mbarrier.arrive(empty)
        k.mbarrier.wait(full, 0)
        k.mbarrier.wait(empty, 0)
        y[thread] = row[thread]

    with pytest.raises(nvb.DiagnosticError) as caught:
        rows.build()
    wrong = [one for one in caught.value.diagnostics if one.rule_id.startswith("mbarrier")]
    assert [one.rule_id for one in wrong] == ["mbarrier.wrong-barrier"]
    assert wrong[0].fix is not None
    assert wrong[0].fix.endswith("complete on mbarrier full")
    assert rows.with_(mended=True).build().diagnostics == ()


def mailbox(early: str) -> nvb.KernelDefinition:
    """Warp 0 hands rows of 32 numbers to warp 1. Either arrives too early, as `early` says."""

    @nvb.kernel("sm_90", threads=64)
    def mailbox(k, x: F32, y: F32, rows: i32(minimum=1)):
        box, lane = k.shared(f32, 32, name="box"), k.lane_id()
        posted, taken = (k.mbarrier.array(1, arrivals=32, name=name) for name in ("posted", "taken"))
        k.mbarrier.ready()
        with k.if_(k.warp_id() == 0), k.range(rows) as row:
            k.mbarrier.wait(taken, (row & 1) ^ 1)
            if early == "posted":
                k.mbarrier.arrive(posted)
            box[lane] = x[row * 32 + lane]
            if early != "posted":
                k.mbarrier.arrive(posted)
        with k.if_(k.warp_id() == 1), k.range(rows) as row:
            k.mbarrier.wait(posted, row & 1)
            if early == "taken":
                k.mbarrier.arrive(taken)
            y[row * 32 + lane] = box[31 - lane]
            if early != "taken":
                k.mbarrier.arrive(taken)

    return mailbox


@pytest.mark.parametrize(
    ("early", "rule", "says"),
    [
        ("posted", "shared.missing-barrier", "let warp 0 arrive on posted after line"),
        ("taken", "shared.overwritten-early", "let warp 1 arrive on taken after line"),
    ],
)
def test_an_arrival_before_the_access_is_to_come_after_it(early: str, rule: str, says: str) -> None:
    (found,) = broken(mailbox(early).build)
    assert found.rule_id == rule and says in (found.fix or "")
    assert rules(mailbox("").build) == []


def group_of_two_warps(meets: bool) -> nvb.KernelDefinition:
    """Two warps turn rows that a third one brings; the first lane of the two gives a row back."""

    @nvb.kernel("sm_90", threads=96)
    def rows_of_two_warps(k, x: F32, y: F32, rows: i32(minimum=1)):
        row, words, thread = k.shared(f32, 64, align=16), k.shared(f32, 128, name="words"), k.thread_id()
        full, empty = (k.mbarrier.array(1, arrivals=1, name=name) for name in ("full", "empty"))
        k.mbarrier.ready()
        with k.if_(k.warp_id() == 2), k.one_thread(2), k.range(rows) as step:
            k.mbarrier.wait(empty, (step & 1) ^ 1)
            k.mbarrier.arrive(full, expect_tx=256)
            k.bulk.load(row, x + step * 64, 256, full)
        place = k.var(0)
        with k.if_(k.warp_id() < 2), k.range(rows) as step:
            k.mbarrier.wait(full, step & 1)
            words[place + thread] = row[thread]
            if meets:
                k.barrier.sync(1, 64)
            y[step * 64 + thread] = words[place + (63 - thread)]
            k.barrier.sync(1, 64)
            place ^= 64
            k.mbarrier.arrive(empty, when=thread == 0)

    return rows_of_two_warps


def test_a_part_of_the_cta_meets_at_a_named_barrier() -> None:
    """Not at that of the CTA, nor by an arrival that comes after the read: its wait would have no end."""
    (found,) = broken(group_of_two_warps(meets=False).build)
    assert found.rule_id == "shared.missing-barrier"
    assert "put k.barrier.sync(number, 64) between" in (found.fix or "") and "empty" not in (found.fix or "")
    assert rules(group_of_two_warps(meets=True).build) == []
