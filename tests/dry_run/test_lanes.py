"""Lanes of one warp: what they exchange through shared memory, and what some of them have waited for.

Each kernel is built wrong and right: they differ by what its argument names.
"""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import f16, f32, i32, u32
from tests.dry_run.refusals import refusals
from tests.support.runtime import broken

OUT = nvb.Pointer[i32]
FLOATS = nvb.Pointer(f32, align=16)
WAIT = ["proxy.waited-by-others"]
EXCHANGE = ["dry-run.missing-warp-sync"]


@nvb.kernel("sm_80", threads=64)
def exchange(k, out: OUT, *, between):
    words, thread = k.shared(i32, 64), k.thread_id()
    words[thread] = thread
    between(k, words)
    out[thread] = words[thread ^ 1]


@pytest.mark.parametrize(
    ("between", "rules"),
    [
        (lambda k, words: None, EXCHANGE),
        (lambda k, words: k.fence.thread(scope="cta"), EXCHANGE),
        (lambda k, words: k.warp.sync(), []),
        (lambda k, words: k.barrier.sync(), []),
        (lambda k, words: k.warp.shuffle(k.thread_id(), "idx", 0), []),
        (lambda k, words: k.warp.vote("any", k.lane_id() < 3), []),
    ],
    ids=["nothing", "fence", "warp", "cta", "shuffle", "vote"],
)
def test_lanes_meet_between_a_write_and_the_read_of_another(between, rules) -> None:
    assert refusals(exchange, between=between) == rules


@nvb.kernel("sm_80", threads=32)
def of_one_lane(k, out: OUT, *, reader):
    word, lane = k.shared(i32, 1), k.lane_id()
    with k.if_(lane == 0):
        word[0] = 1
    with k.if_(lane == reader):
        out[0] = word[0]


@pytest.mark.parametrize(("reader", "rules"), [(0, []), (1, EXCHANGE)])
def test_a_lane_reads_what_it_wrote_itself(reader, rules) -> None:
    assert refusals(of_one_lane, reader=reader) == rules


@nvb.kernel("sm_80", threads=32)
def again(k, out: OUT, *, meets, place):
    words, lane = k.shared(i32, 32), k.lane_id()
    words[lane] = lane
    k.warp.sync()
    out[lane] = words[31 - lane]
    if meets:
        k.warp.sync()
    words[lane if place is None else 31 - lane] = 0


@pytest.mark.parametrize(
    ("meets", "place", "rules"), [(False, None, EXCHANGE), (True, None, []), (False, "what it has read", [])]
)
def test_lanes_meet_between_a_read_and_the_write_of_another(meets, place, rules) -> None:
    assert refusals(again, meets=meets, place=place) == rules


@nvb.kernel("sm_80", threads=32)
def halves(k, out: nvb.Pointer[nvb.f16], *, other):
    words, lane = k.shared(nvb.f16, 64), k.lane_id()
    words[2 * lane] = out[lane]
    words[2 * lane + 1] = out[lane]
    out[lane] = words[(2 * lane + other) % 64]


@pytest.mark.parametrize(("other", "rules"), [(0, []), (1, []), (2, EXCHANGE)])
def test_neighbours_in_one_word_are_other_bytes(other, rules) -> None:
    assert refusals(halves, other=other) == rules


@nvb.kernel("sm_90", threads=32)
def waited(k, x: nvb.Pointer[f32], y: nvb.Pointer[f32], *, waits, between, reads):
    row, lane = k.shared(f32, 32, align=128), k.lane_id()
    full = k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    with k.if_(lane == 0):
        k.mbarrier.arrive(full, expect_tx=128)
        k.bulk.load(row, x, 128, full)
    with k.if_(lane < waits):
        k.mbarrier.wait(full, 0)
    between(k)
    with k.if_(lane < reads):
        y[lane] = row[lane]


@pytest.mark.parametrize(
    ("waits", "between", "reads", "refused"),
    [
        (1, lambda k: None, 32, True),
        (1, lambda k: k.warp.sync(), 32, False),
        (1, lambda k: None, 1, False),
        (8, lambda k: None, 8, False),
        (8, lambda k: None, 9, True),
        (32, lambda k: None, 32, False),
    ],
)
def test_a_lane_reads_after_its_own_wait_or_a_meeting(waits, between, reads, refused) -> None:
    assert refusals(waited, waits=waits, between=between, reads=reads) == (WAIT if refused else [])


@nvb.kernel("sm_90", threads=32)
def asked(k, x: nvb.Pointer[f32], y: nvb.Pointer[f32], *, between):
    row, lane = k.shared(f32, 32, align=128), k.lane_id()
    full = k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    with k.if_(lane == 0):
        k.mbarrier.arrive(full, expect_tx=128)
        k.bulk.load(row, x, 128, full)
        with k.loop():
            k.break_if(k.mbarrier.test(full, parity=0))
    between(k)
    y[lane] = row[lane]


@pytest.mark.parametrize(("between", "rules"), [(lambda k: None, WAIT), (lambda k: k.warp.sync(), [])])
def test_lanes_meet_after_one_has_asked_for_all(between, rules) -> None:
    assert refusals(asked, between=between) == rules


PARTS = {
    "elected": (lambda k: k.elect(), lambda k: k.elect()),
    "of lane 0": (lambda k: k.lane_id() == 0, lambda k: k.lane_id() == 0),
    "elected, committed by lane 0": (lambda k: k.elect(), lambda k: k.lane_id() == 0),
    "of lane 0, committed by the elected": (lambda k: k.lane_id() == 0, lambda k: k.elect()),
}
"""Which lane of a warp issues, and which one commits."""


@pytest.mark.parametrize("part", PARTS)
def test_a_lane_commits_its_own_multiplies_and_not_those_of_an_elected_one(part: str) -> None:
    issues, commits = PARTS[part]
    mma = nvb.tcgen05.mma("m128n64k16", f16, f16, f32)

    @nvb.kernel("sm_100a", threads=128)
    def kernel(k, steps: i32(minimum=1), p: nvb.Pointer[u32]):
        tiled = k.tiled_mma(mma)
        left, right = k.shared_tile(tiled.smem_a(64)), k.shared_tile(tiled.smem_b(64))
        done = k.mbarrier.array(1, arrivals=1, name="done")
        k.mbarrier.ready()
        with k.tcgen05.tmem(64) as tmem:
            with k.if_(k.warp_id() == 1):
                with k.if_(issues(k)), k.range(steps) as step:
                    tiled.accumulate(tmem, left, right, accumulate=step > 0)
                with k.if_(commits(k)):
                    k.tcgen05.commit(done)
            k.mbarrier.wait(done, 0)
            k.tcgen05.fence_after_thread_sync()
            load = k.tcgen05.ld(tmem.lanes(k.warp_id() * 32), "32x32b", 1)
            k.tcgen05.wait_ld(load)
            p[k.thread_id()] = load.values[0]

    found = broken(lambda: kernel.build(check=True))
    assert [one.rule_id for one in found] == ["async.other-threads"] * ("," in part)
    for one in found:
        assert "the elected lane of warp 1" in one.message
        assert "lane 0 of warp 1" in one.message


@nvb.kernel("sm_90", threads=64)
def given_back_one_by_one(k, x: FLOATS, y: FLOATS, n: i32(minimum=1), *, gives):
    """Warp 1 reads three rows, a lane each, and some lane gives each back: `gives` says which."""
    rows, lane = k.shared(f32, 12, align=128, name="rows"), k.lane_id()
    full, empty = (k.mbarrier.array(3, arrivals=1, name=name) for name in ("full", "empty"))
    k.mbarrier.ready()
    with k.if_(k.warp_id() == 0), k.if_(lane == 0), k.range(n) as i:
        for row in range(3):
            k.mbarrier.wait(empty + row, (i & 1) ^ 1)
            k.mbarrier.arrive(full + row, expect_tx=16)
            k.bulk.load(rows + row * 4, x + (i * 3 + row) * 4, 16, full + row)
    with k.else_(), k.range(n) as i:
        for row in range(3):
            k.mbarrier.wait(full + row, i & 1)
        with k.if_(lane < 3):
            (y + (i * 3 + lane) * 4).store(*(rows + lane * 4).load(4))
        for row, giver in enumerate(gives):
            with k.if_(lane == giver):
                k.mbarrier.arrive(empty + row)


@pytest.mark.parametrize(
    ("gives", "refused"), [((0, 1, 2), False), ((0, 0, 2), True), ((0, 1, 1), True), ((3, 1, 2), True)]
)
def test_each_lane_gives_back_what_it_has_read(gives, refused) -> None:
    assert refusals(given_back_one_by_one, gives=gives) == (["proxy.refill"] if refused else [])


@nvb.kernel("sm_90", threads=64)
def rings_of_lanes(k, x: FLOATS, y: FLOATS, n: i32(minimum=1), *, reads, gives):
    """Each of four lanes brings rows to a ring of its own, and each of four others reads one."""
    rows, lane = k.shared(f32, 4 * 2 * 4, align=128, name="rows"), k.lane_id()
    full, empty = (k.mbarrier.array(8, arrivals=1, name=name) for name in ("full", "empty"))
    k.mbarrier.ready()
    with k.if_(k.warp_id() == 0), k.if_(lane < 4), k.range(n) as i:
        stage = lane * 2 + i % 2
        k.mbarrier.wait(empty + stage, (i // 2 & 1) ^ 1)
        k.mbarrier.arrive(full + stage, expect_tx=16)
        k.bulk.load(rows + stage * 4, x + (i * 4 + lane) * 4, 16, full + stage)
    with k.else_(), k.if_(lane < 4), k.range(n) as i:
        stage = lane * 2 + i % 2
        k.mbarrier.wait(full + stage, i // 2 & 1)
        (y + (i * 4 + lane) * 4).store(*(rows + (reads(lane) * 2 + i % 2) * 4).load(4))
        k.mbarrier.arrive(empty + gives(lane) * 2 + i % 2)


@pytest.mark.parametrize(
    ("reads", "gives", "refused"),
    [
        (lambda lane: lane, lambda lane: lane, False),
        (lambda lane: lane ^ 1, lambda lane: lane, True),
        (lambda lane: lane ^ 1, lambda lane: lane ^ 1, True),
    ],
)
def test_each_lane_has_a_ring_of_its_own(reads, gives, refused) -> None:
    found = refusals(rings_of_lanes, reads=reads, gives=gives)
    assert bool(found) is refused
    assert set(found) <= {"proxy.refill", "proxy.waited-by-others", "proxy.read-before-wait"}
