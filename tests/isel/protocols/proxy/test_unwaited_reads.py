"""proxy.waited-by-others: who waits for a copy, against who reads it, thread by thread."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

import nvbackend as nvb
from nvbackend import f16, i32
from nvbackend.isel.protocols.mbarrier.uses import ATTACHED
from nvbackend.isel.protocols.proxy.unwaited import check_unwaited_reads
from tests.support.proxy_program import Program
from tests.support.runtime import broken, rules

RULE = "proxy.waited-by-others"
MATRIX = nvb.TensorMap(f16, box=(64, 64), swizzle=0)
BYTES = 64 * 64 * 2


def whole(*, waits, reads=lambda k: True, behind=lambda k, full: None, rounds=2, late=False):
    """Thread 0 fills a tile and the threads of `waits` wait; then, `behind` that, those of `reads` read it.

    If `late` they wait after they have read.
    """

    @nvb.kernel("sm_90a", threads=128)
    def kernel(k, matrix: MATRIX, out: nvb.Pointer[f16], n: i32):
        tile, full = k.shared(f16, 64 * 64, align=128, name="tile"), k.mbarrier.array(1, 1, name="full")
        k.mbarrier.ready()
        with k.range(rounds) as turn:
            with k.one_thread():
                k.mbarrier.arrive(full, expect_tx=BYTES)
                k.tma.load_box(tile, matrix, (0, turn * 64), full)
            with k.if_(waits(k)):
                k.mbarrier.wait(full, turn & 1)
            behind(k, full)
            with k.if_(reads(k)):
                out[turn * 128 + k.thread_id()] = tile[k.thread_id()]
                if late:
                    k.mbarrier.wait(full, turn & 1)
            k.barrier.sync()

    return kernel


def everybody(k):
    return k.const(0, i32) == 0


CASES = {
    "all": (lambda k: k.thread_id() >= 0, everybody, False),
    "one thread": (lambda k: k.thread_id() == 0, everybody, True),
    "one warp": (lambda k: k.warp_id() == 0, everybody, True),
    "all but one warp": (lambda k: k.warp_id() < 3, everybody, True),
    "those that read": (lambda k: k.warp_id() < 2, lambda k: k.warp_id() < 2, False),
    "those that do not": (lambda k: k.warp_id() < 2, lambda k: k.warp_id() >= 2, True),
    "another thread": (lambda k: k.thread_id() == 41, lambda k: k.thread_id() == 40, True),
    "the thread that reads": (lambda k: k.thread_id() == 40, lambda k: k.thread_id() == 40, False),
    "more than read": (lambda k: k.warp_id() < 3, lambda k: k.warp_id() < 2, False),
}


@pytest.mark.parametrize("rounds", [2, 3])
@pytest.mark.parametrize("name", CASES)
def test_who_waits(name: str, rounds: int) -> None:
    waits, reads, wrong = CASES[name]
    assert (RULE in rules(whole(waits=waits, reads=reads, rounds=rounds).build)) is wrong


@pytest.mark.parametrize("name", CASES)
def test_a_barrier_behind_the_wait(name: str) -> None:
    waits, reads, _ = CASES[name]
    kernel = whole(waits=waits, reads=reads, behind=lambda k, full: k.barrier.sync(), rounds=3)
    assert RULE not in rules(kernel.build)


@pytest.mark.parametrize("name", CASES)
def test_a_wait_behind_the_read_is_too_late(name: str) -> None:
    waits, reads, wrong = CASES[name]
    assert (RULE in rules(whole(waits=waits, reads=reads, late=True).build)) is wrong


def test_threads_of_which_nothing_is_known() -> None:
    @nvb.kernel("sm_90a", threads=128)
    def kernel(k, matrix: MATRIX, out: nvb.Pointer[f16], n: i32):
        tile, full = k.shared(f16, 64 * 64, align=128), k.mbarrier.array(1, 1)
        k.mbarrier.ready()
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=BYTES)
            k.tma.load_box(tile, matrix, (0, 0), full)
        with k.if_(k.thread_id() < n):
            k.mbarrier.wait(full, 0)
            out[k.thread_id()] = tile[k.thread_id()]

    assert RULE not in rules(kernel.build)


@pytest.mark.parametrize("when", ["n > 3", "n <= 3", "always"])
def test_a_copy_that_need_not_have_come(when: str) -> None:
    """Who reads in the other case reads what was there before; nobody compares the two conditions."""

    @nvb.kernel("sm_90a", threads=128)
    def kernel(k, matrix: MATRIX, out: nvb.Pointer[f16], n: i32):
        tile, full = k.shared(f16, 64 * 64, align=128), k.mbarrier.array(1, 1)
        k.mbarrier.ready()
        with k.if_(n > 3) if when != "always" else nullcontext():
            with k.one_thread():
                k.mbarrier.arrive(full, expect_tx=BYTES)
                k.tma.load_box(tile, matrix, (0, 0), full)
            with k.if_(k.warp_id() == 0):
                k.mbarrier.wait(full, 0)
        with k.if_(n > 3 if when == "n > 3" else n <= 3):
            out[k.thread_id()] = tile[k.thread_id()]

    assert (RULE in rules(kernel.build)) is (when == "always")


def test_the_tile_of_another_copy() -> None:
    @nvb.kernel("sm_90a", threads=128)
    def kernel(k, matrix: MATRIX, out: nvb.Pointer[f16]):
        first, second = (k.shared(f16, 64 * 64, align=128, name=name) for name in ("first", "second"))
        full = k.mbarrier.array(2, 1)
        k.mbarrier.ready()
        with k.one_thread():
            for tile, barrier in ((first, full), (second, full + 1)):
                k.mbarrier.arrive(barrier, expect_tx=BYTES)
                k.tma.load_box(tile, matrix, (0, 0), barrier)
            k.mbarrier.wait(full + 1, 0)
        k.mbarrier.wait(full, 0)
        out[k.thread_id()] = first[k.thread_id()]

    assert RULE not in rules(kernel.build)


def test_the_place_and_the_thread() -> None:
    waits, reads, _ = CASES["all but one warp"]
    [found] = [one for one in broken(whole(waits=waits, reads=reads).build) if one.rule_id == RULE]
    assert "thread 127" in found.message
    assert found.location is not None
    assert "tile[k.thread_id()]" in found.location.source
    assert [text for text, _ in found.notes] == ["the copy is issued here"]


def test_reads_of_one_block_are_told_once() -> None:
    """What waits for the first of them waits for all; another block is another matter."""

    @nvb.kernel("sm_90a", threads=128)
    def kernel(k, matrix: MATRIX, out: nvb.Pointer[f16]):
        tile, full = k.shared(f16, 64 * 64, align=128, name="tile"), k.mbarrier.array(1, 1, name="full")
        k.mbarrier.ready()
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=BYTES)
            k.tma.load_box(tile, matrix, (0, 0), full)
        with k.if_(k.warp_id() == 0):
            k.mbarrier.wait(full, 0)
        out[k.thread_id()] = tile[k.thread_id()]
        out[k.thread_id() + 128] = tile[k.thread_id() + 128]
        with k.if_(k.warp_id() == 3):
            out[k.thread_id() + 256] = tile[k.thread_id() + 256]

    found = [one for one in broken(kernel.build) if one.rule_id == RULE]
    assert ["+" in one.location.source for one in found if one.location] == [False, True]


@pytest.mark.parametrize("attached", [False, True])
def test_the_owner_of_an_attached_function_may_wait(attached: bool) -> None:
    p = Program()
    p.load()
    with p.k.if_(p.k.warp_id() == 0):
        p.k.mbarrier.wait(p.full, 0)
    p.pointer[p.k.thread_id()] = p.tile.address.cast(f16)[p.k.thread_id()]
    p.found()
    p.k.machine.attributes[ATTACHED] = attached
    assert [one.rule_id for one in check_unwaited_reads(p.k.machine)] == [RULE] * (not attached)
