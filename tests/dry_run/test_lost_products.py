"""A product of tcgen05 that starts a new sum in columns which nothing has read since the last one."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import i32
from tests.dry_run.kernels.cutlass_sm100 import HALF, MATRIX, MMA, PART, ROWS, SHAPE, store
from tests.dry_run.kernels.parts import OUT
from tests.dry_run.refusals import refusals

RULE = "tcgen05.lost-product"
COUNT = i32(minimum=2)


@nvb.kernel("sm_100a", threads=128)
def products(k, a: MATRIX, b: PART, c: OUT, flags: nvb.Pointer[i32], tiles: COUNT, steps: COUNT, *, by="tile"):
    """Tile after tile, each of several steps: one thread loads and multiplies, and waits before it loads again."""
    ta, tb = k.shared_tile(ROWS, name="a"), k.shared_tile(HALF, name="b")
    full, multiplied, done = (k.mbarrier.array(1, arrivals=1, name=name) for name in ("full", "multiplied", "done"))
    k.mbarrier.ready()
    with k.tcgen05.tmem(64) as tmem, k.range(tiles, name="tile") as tile:
        with k.one_thread():
            with k.range(steps, name="step") as step:
                turn = tile * steps + step
                k.mbarrier.arrive(full, expect_tx=ROWS.bytes + HALF.bytes)
                k.tma.load(ta, a, (tile * 128, step * 64), full)
                k.tma.load(tb, b, (0, step * 64), full)
                k.mbarrier.wait(full, turn & 1)
                k.tcgen05.fence_after_thread_sync()
                for column in range(0, 64, 16):
                    more = step > 0 if column == 0 else True
                    if by == "step":
                        more = column > 0
                    elif by == "product":
                        more = step > 0
                    at = (0, column)
                    k.tcgen05.mma(MMA, tmem, ta, tb, SHAPE, a_at=at, b_at=at, accumulate=more)
                k.tcgen05.commit(multiplied)
                k.mbarrier.wait(multiplied, turn & 1)
            k.tcgen05.commit(done)
        k.mbarrier.wait(done, tile & 1)
        k.tcgen05.fence_after_thread_sync()
        with k.if_(flags[tile] > 0 if by == "data" else tile >= 0):
            load = k.tcgen05.ld(tmem.lanes(k.warp_id() * 32), "32x32b", 64)
            k.tcgen05.wait_ld(load)
            store(c + (tile * 128 + k.thread_id()) * 64, load.values)
        k.tcgen05.fence_before_thread_sync()
        k.barrier.sync()


@pytest.mark.parametrize("by", ["tile", "data"])
def test_a_tile_starts_its_own_sum(by: str) -> None:
    """Also where data decides that nobody reads the one before: that may be a guess which did not hold."""
    assert refusals(products, by=by) == []


@pytest.mark.parametrize(
    ("by", "when", "first"),
    [
        ("step", "in round 0 of tile, round 1 of step, ", "in round 0 of tile, round 0 of step left there"),
        ("product", "in round 0 of tile, round 0 of step, ", "round 0 of step left there"),
    ],
)
def test_a_sum_that_starts_again_in_its_middle_is_told(by: str, when: str, first: str) -> None:
    """With a commit between the two, and without."""
    with pytest.raises(nvb.DiagnosticError) as caught:
        products.build(by=by)
    (only,) = caught.value.diagnostics
    assert only.rule_id == RULE
    assert only.message.startswith(
        f"{when}tcgen05.mma of warp 0 starts a new sum in columns of tensor memory from 0 on"
    )
    assert only.message.endswith(first)


@nvb.kernel("sm_100a", threads=128)
def two_sums(k, a: MATRIX, b: PART, c: OUT, steps: COUNT, *, by):
    """Two loops of products into the same columns, or two lines: the second ones start a sum anew."""
    ta, tb = k.shared_tile(ROWS, name="a"), k.shared_tile(HALF, name="b")
    full, done = (k.mbarrier.array(1, arrivals=1, name=name) for name in ("full", "done"))
    k.mbarrier.ready()
    with k.tcgen05.tmem(64) as tmem:
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=ROWS.bytes + HALF.bytes)
            k.tma.load(ta, a, (0, 0), full)
            k.tma.load(tb, b, (0, 0), full)
            k.mbarrier.wait(full, 0)
            k.tcgen05.fence_after_thread_sync()
            if by == "lines":
                k.tcgen05.mma(MMA, tmem, ta, tb, SHAPE, accumulate=False)
                k.tcgen05.mma(MMA, tmem, ta, tb, SHAPE, accumulate=False)
            else:
                with k.range(steps, name="first") as step:
                    k.tcgen05.mma(MMA, tmem, ta, tb, SHAPE, accumulate=step > 0)
                if by == "commit":
                    k.tcgen05.commit(full)
                with k.range(steps, name="second") as step:
                    k.tcgen05.mma(MMA, tmem, ta, tb, SHAPE, accumulate=step > 0)
            k.tcgen05.commit(done)
        k.mbarrier.wait(done, 0)
        k.tcgen05.fence_after_thread_sync()
        load = k.tcgen05.ld(tmem.lanes(k.warp_id() * 32), "32x32b", 64)
        k.tcgen05.wait_ld(load)
        store(c + k.thread_id() * 64, load.values)


@pytest.mark.parametrize(("by", "rules"), [("lines", []), ("commit", []), ("loops", [RULE])])
def test_a_sum_that_nobody_can_have_read(by: str, rules: list[str]) -> None:
    """What another line overwrites may be meant so, and so may what was committed: a guess that did not hold."""
    assert refusals(two_sums, by=by) == rules
