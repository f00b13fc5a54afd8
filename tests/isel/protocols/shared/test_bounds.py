"""Accesses past the end of an allocation, against every byte that a Python loop over threads and rounds comes to."""

from __future__ import annotations

import functools
from contextlib import nullcontext

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import nvbackend as nvb
from nvbackend import f16, f32, i32, u8, u32
from tests.support.runtime import broken, rules

THREADS = 64
RULE = "shared.bounds"


@settings(max_examples=60, deadline=None)
@given(
    extent=st.integers(1, 200),
    factors=st.tuples(st.integers(-2, 2), st.integers(-3, 3), st.integers(0, 3)),
    first=st.integers(-20, 200),
    rounds=st.tuples(st.integers(0, 4), st.integers(4, 9), st.integers(1, 3)),
    inside=st.integers(1, THREADS),
)
def test_said_exactly_where_some_thread_leaves(extent, factors, first, rounds, inside) -> None:
    """`inside` threads access first + a*thread + b*i + c*j of `extent` words, in one loop or two, one in the other."""
    by_thread, by_round, by_inner = factors
    begin, length, step = rounds

    @nvb.kernel("sm_90a", threads=THREADS)
    def walk(k):
        words, thread = k.shared(u32, extent), k.thread_id()
        inner = k.range(2) if by_inner else nullcontext(0)
        with k.range(begin, begin + length, step) as i, inner as j, k.if_(thread < inside):
            words[thread * by_thread + i * by_round + j * by_inner + first] = 1

    places = [
        first + by_thread * thread + by_round * i + by_inner * j
        for thread in range(inside)
        for i in range(begin, begin + length, step)
        for j in range(2)
    ]
    leaving = {4 * place for place in places if not 0 <= place < extent}
    found = [one for one in broken(walk.build) if one.rule_id == RULE] if leaving else []
    assert bool(found) is bool(leaving)
    for one in found:
        assert one.values["start"] in leaving
        assert (one.values["who"] == "") is (by_thread == 0)
        if by_thread:
            thread = int(one.values["who"].removeprefix(" in thread "))
            rest = one.values["start"] // 4 - first - by_thread * thread
            assert rest in {by_round * i + by_inner * j for i in range(begin, begin + length, step) for j in range(2)}
    assert leaving or RULE not in rules(walk.build)


STEPS = ("access", "break", "continue", "return", "skip", "other")


def executed(program, rounds, n):
    """The rounds (i, j) in which thread 0 comes to an access where the run-time number is `n`."""
    for i in range(*rounds):
        for j in range(2):
            skipping = False
            for step in program:
                happens = i + j == n
                if step == "return" and happens:
                    return
                if step in ("break", "continue") and happens:
                    break
                if step == "skip":
                    skipping = happens
                elif step == "other":
                    skipping = not happens
                elif step == "access" and not skipping:
                    yield i, j
            else:
                continue
            if step == "break":
                break


@example(("continue", "access"), (1, 0), 63, (0, 2, 1))
@example(("break", "access"), (1, 0), 63, (0, 3, 1))
@example(("return", "access"), (0, 1), 63, (0, 2, 1))
@example(("access", "break"), (2, 1), 61, (0, 3, 1))
@example(("skip", "access"), (1, 1), 62, (0, 2, 1))
@example(("other", "access"), (1, 1), 62, (0, 2, 1))
@example(("break", "access"), (0, 0), -1, (0, 2, 2))
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(STEPS), min_size=1, max_size=4).map(lambda steps: (*steps, "access")),
    st.tuples(st.integers(-2, 2), st.integers(0, 2)),
    st.integers(-3, 66),
    st.tuples(st.integers(0, 2), st.integers(2, 5), st.integers(1, 2)),
)
def test_rounds_that_a_number_at_run_time_leaves_out(program, factors, first, rounds) -> None:
    """Said only where some round of every run leaves, or every round of any run that comes to an access."""

    @nvb.kernel("sm_90a", threads=THREADS)
    def walk(k, n: i32):
        words = k.shared(u32, 64)
        with k.range(*rounds) as i, k.range(2) as j:
            around = nullcontext
            for step in program:
                happens = i + j == n
                if step == "access":
                    with around():
                        words[i * factors[0] + j * factors[1] + first] = 1
                elif step in ("skip", "other"):
                    around = functools.partial(k.if_, happens if step == "other" else i + j != n)
                else:
                    getattr(k, f"{step}_if")(happens)

    runs = [
        [not 0 <= first + factors[0] * i + factors[1] * j < 64 for i, j in executed(program, rounds, n)]
        for n in range(-1, 9)
    ]
    said = RULE in rules(lambda: walk.build(check=False))
    assert not said or all(map(any, runs)) or all(map(all, runs))
    assert factors != (0, 0) or not any(map(len, runs)) or said is (not 0 <= first < 64)


@settings(max_examples=40, deadline=None)
@given(count=st.integers(1, 70), factor=st.integers(-2, 2), first=st.integers(-4, 70), inside=st.integers(1, THREADS))
def test_mbarriers_of_an_array(count, factor, first, inside) -> None:
    """`inside` threads arrive at barrier first + factor*thread of `count`, each at one that is there."""

    @nvb.kernel("sm_90a", threads=THREADS)
    def walk(k):
        full, thread = k.mbarrier.array(count, 1), k.thread_id()
        k.mbarrier.ready()
        with k.if_(thread < inside):
            k.mbarrier.arrive(full + thread * factor + first)

    places = [first + factor * thread for thread in range(inside)]
    leaves = min(places) < 0 or max(places) >= count
    assert (RULE in rules(walk.build)) is (leaves and factor != 0)
    assert factor != 0 or ("mbarrier.uninitialised" in rules(walk.build)) is leaves


@settings(max_examples=40, deadline=None)
@given(extent=st.integers(1, 80), factor=st.integers(-2, 2), first=st.integers(-20, 100), warp=st.integers(0, 1))
def test_one_thread_of_a_warp_is_any_of_its_lanes(extent, factor, first, warp) -> None:
    """Whichever lane is elected: it leaves for certain only where each of the 32 would."""

    @nvb.kernel("sm_90a", threads=THREADS)
    def walk(k):
        words = k.shared(u32, extent)
        with k.one_thread(warp):
            words[k.thread_id() * factor + first] = 1

    places = [first + factor * thread for thread in range(32 * warp, 32 * warp + 32)]
    assert (RULE in rules(walk.build)) is all(not 0 <= place < extent for place in places)


@pytest.mark.parametrize("peer", [False, True])
@pytest.mark.parametrize("index", [63, 64, -1])
def test_memory_of_this_cta_and_of_a_peer(index: int, peer: bool) -> None:
    @nvb.kernel("sm_90a", threads=THREADS, cluster=2)
    def walk(k):
        words = k.shared(u32, 64)
        mapped = k.cluster.map_shared_rank(words, k.cluster.peer_rank()) if peer else words
        k.cluster.sync()
        with k.if_(k.thread_id() == 0):
            mapped[k.thread_id() + index] = 1
        k.cluster.sync()

    assert rules(walk.build) == [RULE] * (index != 63)


def of(index):
    """A kernel that writes where `index(k, n)` says, in 64 words."""

    @nvb.kernel("sm_90a", threads=THREADS)
    def write(k, n: i32):
        words = k.shared(u32, 64)
        words[index(k, n)] = 1

    return rules(write.build)


def test_what_nobody_can_know_is_left_alone() -> None:
    assert of(lambda k, n: n + 64) == []
    assert of(lambda k, n: k.block_id() + k.thread_id()) == []
    assert of(lambda k, n: k.thread_id() + n % 64) == []


def test_a_round_that_may_never_come_is_left_alone() -> None:
    @nvb.kernel("sm_90a", threads=THREADS)
    def leave(k, n: i32):
        words = k.shared(u32, 8)
        with k.range(16) as i:
            k.break_if(i == n)
            words[i] = 1

    @nvb.kernel("sm_90a", threads=THREADS)
    def some(k, n: i32):
        words = k.shared(u32, 8)
        with k.range(16) as i, k.if_(i < n):
            words[i] = 1

    @nvb.kernel("sm_90a", threads=THREADS)
    def unknown(k, n: i32):
        words = k.shared(u32, 8)
        with k.range(n) as i:
            words[i] = 1

    assert [rules(one.build) for one in (leave, some, unknown)] == [[], [], []]


def test_threads_that_may_not_come_are_left_alone() -> None:
    @nvb.kernel("sm_90a", threads=THREADS)
    def some(k, n: i32):
        words = k.shared(u32, 8)
        with k.if_(k.thread_id() < n):
            words[k.thread_id()] = 1

    assert rules(some.build) == []


def copy_box(k, matrix):
    memory, full = k.shared(f16, 64 * 32, align=1024), k.mbarrier.array(1, 1)
    k.mbarrier.ready()
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=64 * 64 * 2)
        k.tma.load_box(memory, matrix, (0, 0), full)


def stage_that_is_none(k, matrix):
    tile = nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64)
    tiles, full = k.shared_tiles(tile, 3), k.mbarrier.array(4, 1)
    k.mbarrier.ready()
    with k.range(4) as step, k.one_thread():
        k.mbarrier.arrive(full + step, expect_tx=tile.bytes)
        k.tma.load(tiles.at(step), matrix, (0, step * 64), full + step)


def rows_of_a_matrix(k, matrix):
    rows = k.shared(u8, 16 * 32, align=128)
    k.mma.ldmatrix(rows + k.lane_id() * 32, 4)


def copies_of_threads(k, matrix):
    words = k.shared(f32, THREADS * 4 - 1)
    k.cp_async.copy(words + k.thread_id() * 4, k.global_address(k.function.args[1], f32, 16), 16)


@pytest.mark.parametrize("body", [copy_box, stage_that_is_none, rows_of_a_matrix, copies_of_threads])
def test_copies_and_matrices(body) -> None:
    @nvb.kernel("sm_90a", threads=THREADS)
    def whole(k, matrix: nvb.TensorMap(f16, box=(64, 64)), _x: nvb.Pointer[f32]):
        body(k, matrix)

    [found] = broken(whole.build)
    assert found.rule_id == RULE
    assert found.location is not None


def test_four_rows_of_lanes_that_give_no_address() -> None:
    @nvb.kernel("sm_90a", threads=32)
    def one_matrix(k):
        rows = k.shared(u8, 8 * 32, align=128)
        k.mma.ldmatrix(rows + k.lane_id() * 32, 1)

    assert rules(one_matrix.build) == []


@pytest.mark.parametrize(("warp", "wrong"), [(0, False), (1, True)])
def test_one_thread_of_a_warp_that_leaves_as_a_whole(warp: int, wrong: bool) -> None:
    """Whichever lane it is, of warp 1 it begins past the end; those of warp 0 do not."""

    @nvb.kernel("sm_90a", threads=THREADS)
    def elected(k):
        words = k.shared(u32, 64)
        with k.one_thread(warp):
            words[k.warp_id() * 64] = 1

    assert rules(elected.build) == [RULE] * wrong
