"""Accesses at places that data decides: refused where every place that they may have makes the same mistake."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import i32
from nvbackend.dry_run.values.ranges import bounds
from nvbackend.dry_run.values.unknown import combine, leaf
from tests.dry_run.refusals import refusals

DATA = nvb.Pointer[i32]
BARRIER = ["shared.missing-barrier"]


@nvb.kernel("sm_80", threads=128)
def gathered(k, x: DATA, out: DATA, *, meets, filled, mask):
    words, thread = k.shared(i32, 128), k.thread_id()
    with k.if_(thread < filled):
        words[thread] = thread
    with k.if_(thread >= 128 - filled):
        words[thread] = 0
    if meets:
        k.barrier.sync()
    with k.if_(thread < 32):
        out[thread] = words[x[thread] & mask]


@pytest.mark.parametrize(
    ("meets", "filled", "mask", "rules"),
    [
        (False, 128, 127, []),  # the place may be one that the reader's own warp has filled
        (True, 128, 127, []),
        (False, 128, 31, []),
    ],
)
def test_reads_somewhere_in_what_others_fill_in_part(meets, filled, mask, rules) -> None:
    assert refusals(gathered, meets=meets, filled=filled, mask=mask) == rules


@nvb.kernel("sm_80", threads=128)
def of_others(k, x: DATA, out: DATA, *, meets, upper):
    words, thread = k.shared(i32, 64), k.thread_id()
    with k.if_(thread < 64):
        words[thread] = thread
    if meets:
        k.barrier.sync()
    with k.if_(thread >= upper):
        out[thread] = words[x[thread] & 63]


@pytest.mark.parametrize(
    ("meets", "upper", "rules"), [(False, 96, BARRIER), (True, 96, []), (False, 0, BARRIER), (True, 0, [])]
)
def test_reads_somewhere_in_what_others_fill(meets, upper, rules) -> None:
    assert refusals(of_others, meets=meets, upper=upper) == rules


@nvb.kernel("sm_80", threads=128)
def counts_of_each_warp(k, x: DATA, out: DATA, *, clears, shared):
    """Each warp has bins of its own: lanes meet, warps need not."""
    bins, lane = k.shared(i32, 128), k.lane_id()
    first = 0 if shared else k.warp_id() * 32
    if clears:
        bins[k.warp_id() * 32 + lane] = 0
    k.warp.sync()
    (bins + first + (x[k.thread_id()] & 31)).atomic("add", 1)
    k.warp.sync()
    out[k.thread_id()] = bins[first + lane]


@pytest.mark.parametrize(
    ("clears", "shared", "rules"),
    [(True, False, []), (True, True, BARRIER), (False, False, ["dry-run.unwritten"])],
)
def test_atomics_on_bins(clears, shared, rules) -> None:
    assert refusals(counts_of_each_warp, clears=clears, shared=shared) == rules


@nvb.kernel("sm_80", threads=64)
def scattered(k, x: DATA, out: DATA, *, exchanges):
    words, thread = k.shared(i32, 64), k.thread_id()
    place = words + (x[thread] & 63)
    if exchanges:
        place.atomic("exch", 1)
    else:
        place.store(thread)
    k.barrier.sync()
    out[thread] = words[thread]


@pytest.mark.parametrize("exchanges", [False, True])
def test_what_may_be_written_is_not_unwritten(exchanges) -> None:
    assert refusals(scattered, exchanges=exchanges) == []


@nvb.kernel("sm_80", threads=128)
def locked(k, out: DATA):
    lock, total, lane = k.shared(i32, 1), k.shared(i32, 1), k.lane_id()
    with k.if_(k.thread_id() == 0):
        lock[0] = 0
        total[0] = 0
    k.barrier.sync()
    with k.if_(lane == 0):
        with k.loop():
            k.break_if(lock.atomic("exch", 1) == 0)
        k.fence.thread(scope="cta")
        total[0] = total[0] + 1
        k.fence.thread(scope="cta")
        lock.atomic("exch", 0)
    k.barrier.sync()
    out[k.thread_id()] = total[0]


@nvb.kernel("sm_80", threads=64)
def flagged(k, out: DATA):
    flag, words, thread = k.shared(i32, 1), k.shared(i32, 32), k.thread_id()
    with k.if_(thread == 0):
        flag[0] = 0
    k.barrier.sync()
    with k.if_(thread < 32):
        words[thread] = thread
        k.warp.sync()
        k.fence.thread(scope="cta")
        with k.if_(thread == 0):
            flag.atomic("exch", 1)
    with k.else_():
        with k.loop():
            k.break_if(flag.atomic("or", 0) == 1)
        k.fence.thread(scope="cta")
        out[thread] = words[thread - 32]


@nvb.kernel("sm_80", threads=64)
def last_adds(k, out: DATA):
    count, words, thread = k.shared(i32, 1), k.shared(i32, 64), k.thread_id()
    with k.if_(thread == 0):
        count[0] = 0
    k.barrier.sync()
    words[thread] = thread
    k.warp.sync()
    k.fence.thread(scope="cta")
    with k.if_(thread % 32 == 0), k.if_(count.atomic("add", 1) == 1):
        k.fence.thread(scope="cta")
        out[thread] = words[5] + words[40]


@pytest.mark.parametrize("kernel", [locked, flagged, last_adds], ids=lambda kernel: kernel.__name__)
def test_warps_may_wait_for_one_another_by_atomics(kernel) -> None:
    assert refusals(kernel) == []


def test_bounds_of_what_data_decides() -> None:
    table: dict = {}
    data = leaf(table, "fresh", 1)
    byte = leaf(table, "load i8", data)
    cases = {
        (0, 63): data & 63,
        (0, 255): byte,
        (100, 355): byte + 100,
        (0, 1020): byte * 4,
        (3, 10): combine("urem", data, 8) + 3,
        (0, 15): combine("lshr", byte, 4),
        (0, 7): combine("umin", data, 7),
        (5, 255): combine("select", data, 255, 5),
        (0, 127): combine("sext", data & 127, 8, 32),
    }
    assert {found: bounds(value) for found, value in cases.items()} == {found: found for found in cases}
    for value in (data, data + 1, combine("sub", byte, 3), combine("sext", byte, 8, 32), combine("urem", data, data)):
        assert bounds(value) is None
