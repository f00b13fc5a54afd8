"""Where a kernel takes the lesser of two sizes, each of them is the lesser one in some run."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import f32, i32
from tests.dry_run.refusals import refusals

FLOATS = nvb.Pointer(f32, align=16)
Size = i32(minimum=1)


def part(drained):
    """A split loads its part of the rows, which may end before; it drains what `drained` makes of (part, rows left)."""

    @nvb.kernel("sm_90", threads=64)
    def kernel(k, x: FLOATS, out: FLOATS, rows: Size, each: Size):
        box, lane = k.shared(f32, 2 * 32, align=128), k.lane_id()
        full, empty = k.mbarrier.array(2, arrivals=1, name="full"), k.mbarrier.array(2, arrivals=32, name="empty")
        k.mbarrier.ready()
        first = k.block_id() * each
        left = (rows + 3) // 4 - first
        with k.if_(k.thread_id() == 0), k.range(k.math.min(each, left)) as row:
            stage = row % 2
            k.mbarrier.wait(empty + stage, row // 2 & 1 ^ 1)
            k.mbarrier.arrive(full + stage, expect_tx=128)
            k.bulk.load(box + stage * 32, x + (first + row) * 32, 128, full + stage)
        with k.if_(k.warp_id() == 1), k.range(drained(k, each, left)) as row:
            stage = row % 2
            k.mbarrier.wait(full + stage, row // 2 & 1)
            out[(first + row) * 32 + lane] = box[stage * 32 + lane]
            k.mbarrier.arrive(empty + stage)

    return kernel


def test_both_take_the_lesser():
    assert refusals(part(lambda k, each, left: k.math.min(each, left))) == []


@pytest.mark.parametrize("other", [lambda k, each, left: each, lambda k, each, left: left], ids=["each", "left"])
def test_one_takes_the_same_of_the_two_always(other):
    assert refusals(part(other)) == ["mbarrier.deadlock"]
