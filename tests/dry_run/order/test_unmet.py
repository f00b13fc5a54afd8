"""Lane 0 gives a buffer back for its warp: only where all of its lanes have met does that tell what the others read.

What makes the lanes of a warp meet is what PTX says of it: bar.warp.sync, the `.sync` instructions of a warp, the
`.aligned` ones, barriers of the CTA. An mbarrier.arrive, a copy, a commit, a fence, a red and a wait for what says
nothing of their reads do not.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

import nvbackend as nvb
from nvbackend import f32, i32, u32
from tests.dry_run.refusals import refusals

F32 = nvb.Pointer(f32, align=16)
READERS, WORDS = 64, 128
READS: dict[str, Callable] = {
    "its own word": lambda k, box: box[k.thread_id()],
    "one word": lambda k, box: box[5],
    "one word of each warp": lambda k, box: box[k.warp_id()],
    "a word of each pair": lambda k, box: box[k.thread_id() // 2],
}
MEETS: dict[str, Callable] = {
    "warp.sync": lambda k, other, own, count: k.warp.sync(),
    "shuffle": lambda k, other, own, count: k.warp.shuffle(k.thread_id(), "idx", 0),
    "vote": lambda k, other, own, count: k.warp.vote("any", k.lane_id() < 3),
    "elect": lambda k, other, own, count: k.elect(),
    "barrier": lambda k, other, own, count: k.barrier.sync(1, READERS),
}
MEETS_NOT: dict[str, Callable] = {
    "nothing": lambda k, other, own, count: None,
    "arrive": lambda k, other, own, count: k.mbarrier.arrive(other),
    "fence": lambda k, other, own, count: k.fence.thread(scope="cta"),
    "sleep": lambda k, other, own, count: k.nanosleep(20),
    "copies": lambda k, other, own, count: k.cp_async.copy(own + k.thread_id() * 4, count + k.thread_id() * 4, 16),
    "group": lambda k, other, own, count: (k.cp_async.commit_group(), k.cp_async.wait_group(0)),
    "red": lambda k, other, own, count: (own + k.thread_id()).atomic("add", 1.0),
}


@nvb.kernel("sm_90a", threads=READERS + 32)
def ring(k, x: F32, y: nvb.Pointer[f32], steps: i32(minimum=1), *, read, between):
    """A warp fills a box, two warps read it, and lane 0 of each gives it back."""
    box, own = k.shared(f32, WORDS, align=128, name="box"), k.shared(f32, 4 * (READERS + 32), align=128, name="own")
    full, empty = k.mbarrier.array(1, arrivals=1, name="full"), k.mbarrier.array(1, arrivals=2, name="empty")
    other = k.mbarrier.array(1, arrivals=READERS, name="other")
    own[k.thread_id()] = 0.0
    k.mbarrier.ready()
    with k.one_thread(2), k.range(steps) as step:
        k.mbarrier.wait(empty, (step & 1) ^ 1)
        k.mbarrier.arrive(full, expect_tx=4 * WORDS)
        k.bulk.load(box, x + step * WORDS, 4 * WORDS, full)
    with k.if_(k.warp_id() < 2), k.range(steps) as step:
        k.mbarrier.wait(full, step & 1)
        y[step * READERS + k.thread_id()] = READS[read](k, box)
        (MEETS | MEETS_NOT)[between](k, other, own, x)
        k.mbarrier.arrive(empty, when=k.lane_id() == 0)
        if between == "arrive":
            k.mbarrier.wait(other, step & 1)


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("between", MEETS | MEETS_NOT)
def test_lane_0_gives_back_what_all_lanes_have_read(read: str, between: str) -> None:
    refused = ["proxy.refill"] if between in MEETS_NOT else []
    assert refusals(ring, read=read, between=between) == refused


@nvb.kernel("sm_90a", threads=96)
def told_by_all(k, x: F32, y: nvb.Pointer[f32], steps: i32(minimum=1), *, waits):
    """All lanes give the box back on `empty`; lane 0 says on `turn`, before or after a wait, that they have."""
    box = k.shared(f32, WORDS, align=128, name="box")
    full, turn = k.mbarrier.array(1, arrivals=1, name="full"), k.mbarrier.array(1, arrivals=2, name="turn")
    empty = k.mbarrier.array(1, arrivals=64, name="empty")
    k.mbarrier.ready()
    with k.one_thread(2), k.range(steps) as step:
        k.mbarrier.wait(empty if waits == "empty" else turn, (step & 1) ^ 1)
        k.mbarrier.arrive(full, expect_tx=4 * WORDS)
        k.bulk.load(box, x + step * WORDS, 4 * WORDS, full)
    with k.if_(k.warp_id() < 2), k.range(steps) as step:
        k.mbarrier.wait(full, step & 1)
        y[step * 64 + k.thread_id()] = box[k.thread_id()]
        k.mbarrier.arrive(empty)
        if waits == "turn, told after a wait":
            k.mbarrier.wait(empty, step & 1)
        k.mbarrier.arrive(turn, when=k.lane_id() == 0)
        if waits != "turn, told after a wait":
            k.mbarrier.wait(turn, step & 1)


@pytest.mark.parametrize(
    ("waits", "refused"), [("empty", []), ("turn, told after a wait", []), ("turn", ["proxy.refill"])]
)
def test_what_all_lanes_tell_is_told_to_who_waits_for_them_all(waits: str, refused: list[str]) -> None:
    assert refusals(told_by_all, waits=waits) == refused


@nvb.kernel("sm_90a", threads=32)
def alone(k, x: F32, y: nvb.Pointer[f32], steps: i32(minimum=1), *, read, meets):
    """Lane 0 of the one warp fills the box that all lanes read."""
    box, lane = k.shared(f32, WORDS, align=128, name="box"), k.lane_id()
    full = k.mbarrier.array(1, arrivals=1, name="full")
    k.mbarrier.ready()
    with k.range(steps) as step:
        with k.if_(lane == 0):
            k.mbarrier.arrive(full, expect_tx=4 * WORDS)
            k.bulk.load(box, x + step * WORDS, 4 * WORDS, full)
        k.mbarrier.wait(full, step & 1)
        y[step * 32 + lane] = READS[read](k, box)
        if meets:
            k.warp.sync()


@pytest.mark.parametrize("read", ["its own word", "one word"])
@pytest.mark.parametrize("meets", [True, False])
def test_lane_0_refills_what_all_lanes_have_read(read: str, meets: bool) -> None:
    assert refusals(alone, read=read, meets=meets) == ([] if meets else ["proxy.refill"])


@nvb.kernel("sm_90a", threads=32)
def told_to_one(k, x: F32, y: nvb.Pointer[f32], steps: i32(minimum=1), *, waits, first):
    """All lanes give the box back, and lane 0 waits for that and fills it; it may tell something else `first`."""
    box, lane = k.shared(f32, WORDS, align=128, name="box"), k.lane_id()
    full, other = k.mbarrier.array(1, arrivals=1, name="full"), k.mbarrier.array(1, arrivals=1, name="other")
    empty = k.mbarrier.array(1, arrivals=32, name="empty")
    k.mbarrier.ready()
    with k.range(steps) as step:
        with k.if_(lane == 0):
            if waits:
                k.mbarrier.wait(empty, (step & 1) ^ 1)
            k.mbarrier.arrive(full, expect_tx=4 * WORDS)
            k.bulk.load(box, x + step * WORDS, 4 * WORDS, full)
        k.mbarrier.wait(full, step & 1)
        y[step * 32 + lane] = box[lane]
        k.mbarrier.arrive(empty)
        if first:
            k.mbarrier.arrive(other, when=lane == 0)
            k.mbarrier.wait(other, step & 1)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("waits", [True, False])
def test_a_lane_knows_what_it_has_waited_for(waits: bool, first: bool) -> None:
    assert refusals(told_to_one, waits=waits, first=first) == ([] if waits else ["proxy.refill"])


@nvb.kernel("sm_90a", threads=32)
def sent(k, y: F32, *, meets):
    """Lane 0 of the one warp stores what all lanes have written."""
    box, lane = k.shared(f32, 32, align=128, name="box"), k.lane_id()
    box[lane] = 1.0
    k.fence.proxy_async()
    if meets:
        k.warp.sync()
    with k.if_(lane == 0):
        k.bulk.store(y, box, 128)
        k.tma.commit_group()
        k.tma.wait_group(reading=True)


@pytest.mark.parametrize("meets", [True, False])
def test_lane_0_sends_what_all_lanes_have_written(meets: bool) -> None:
    assert refusals(sent, meets=meets) == ([] if meets else ["shared.missing-barrier"])


@nvb.kernel("sm_100a", threads=96)
def taking(k, y: nvb.Pointer[u32], *, meets):
    """A warp asks for clusters, all read each answer, and lane 0 of each warp gives it back."""
    answer = k.shared(u32, 4, align=16, name="answer")
    asked, taken = k.mbarrier.array(1, arrivals=1, name="asked"), k.mbarrier.array(1, arrivals=3, name="taken")
    k.mbarrier.ready()
    turn = k.var(0)
    with k.loop():
        with k.one_thread(2):
            k.mbarrier.wait(taken, (turn & 1) ^ 1)
            k.mbarrier.arrive(asked, expect_tx=16)
            k.launch_control.try_cancel(answer, asked)
        k.mbarrier.wait(asked, turn & 1)
        more, (first, _, _) = k.launch_control.canceled_cluster(answer)
        y[k.thread_id()] = first
        if meets:
            k.warp.sync()
        k.mbarrier.arrive(taken, when=k.lane_id() == 0)
        turn += 1
        k.break_if(~more)


@pytest.mark.parametrize("meets", [True, False])
def test_lane_0_gives_the_answer_back_that_all_lanes_have_read(meets: bool) -> None:
    assert refusals(taking, meets=meets) == ([] if meets else ["proxy.refill"])
