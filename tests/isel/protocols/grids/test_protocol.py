"""Accesses before griddepcontrol.wait: in which threads, of which arrays, and what else comes after the wait."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

import nvbackend as nvb
from nvbackend import f32, u32
from nvbackend.diagnostics import Severity

CONFLICT, EARLY = "griddepcontrol.early-conflict", "griddepcontrol.early-access"


def said(function, **options):
    """The rules that the verifier names, with the arrays that its messages begin with."""
    definition = nvb.kernel("sm_90a", threads=64, **options)(function)
    try:
        found = definition.build().diagnostics
    except nvb.DiagnosticError as error:
        found = error.diagnostics
    return [(one.rule_id, one.message.split()[0]) for one in found]


def test_what_is_read_before_the_wait_and_not_written_is_a_warning() -> None:
    def kernel(k, x: nvb.Pointer[f32], y: nvb.Pointer[f32]):
        thread = k.thread_id()
        value = x[thread]
        k.griddepcontrol("wait")
        y[thread] = value

    with pytest.warns(nvb.DiagnosticWarning, match="before griddepcontrol.wait"):
        (one,) = nvb.kernel("sm_90a", threads=64)(kernel).build().diagnostics
    assert (one.rule_id, one.severity) == (EARLY, Severity.WARNING)
    assert said(kernel, allow={EARLY: "weights"}) == []


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("early", [False, True])
def test_what_the_kernel_itself_writes_afterwards_is_an_error(early: bool, reads: bool) -> None:
    def kernel(k, x: nvb.Pointer[f32], y: nvb.Pointer[f32]):
        thread = k.thread_id()
        value = y[thread] if early else 0.0
        k.griddepcontrol("wait")
        if not early and reads:
            value = y[thread]
        y[thread] = x[thread] + value

    assert said(kernel) == ([(CONFLICT, "y")] if early else [])


def test_an_array_that_is_cleared_before_the_wait() -> None:
    def kernel(k, y: nvb.Pointer[f32]):
        thread = k.thread_id()
        y[thread] = 0.0
        k.griddepcontrol("wait")
        y[thread] = y[63 - thread] + 1.0

    assert said(kernel) == [(CONFLICT, "y")]


@pytest.mark.parametrize(("barrier", "wrong"), [("none", True), ("sync", False), ("arrive", True)])
def test_a_warp_that_does_not_wait_comes_after_one_that_does_by_a_barrier(barrier: str, wrong: bool) -> None:
    """By one that it waits at: an arrival of its own tells it nothing."""

    def kernel(k, x: nvb.Pointer[f32], y: nvb.Pointer[f32]):
        k.barrier.sync()  # before the wait: it says nothing of it
        with k.if_(k.warp_id() == 0):
            k.griddepcontrol("wait")
            if barrier != "none":
                k.barrier.sync(1, 64)
        with k.else_():
            if barrier == "sync":
                k.barrier.sync(1, 64)
            elif barrier == "arrive":
                k.barrier.arrive(1, 64)
            y[k.lane_id()] = x[k.lane_id()]

    with pytest.warns(nvb.DiagnosticWarning) if wrong else pytest.MonkeyPatch.context():
        assert said(kernel) == [(EARLY, "x"), (EARLY, "y")] * wrong


@pytest.mark.parametrize("by", ["mbarrier", "poll", "nothing"])
def test_a_warp_that_does_not_wait_is_told_by_one_that_does(by: str) -> None:
    """An mbarrier whose phase comes after the wait, or a word that is polled, says that the kernels before are done."""

    def kernel(k, x: nvb.Pointer[f32], y: nvb.Pointer[f32]):
        done, word = k.mbarrier.array(1, arrivals=32), k.shared(u32, 1)
        with k.if_(k.thread_id() == 0):
            word[0] = 0
        k.mbarrier.ready()
        with k.if_(k.warp_id() == 0):
            k.griddepcontrol("wait")
            k.mbarrier.arrive(done)
            word.atomic("exch", 1)
        with k.else_():
            if by == "mbarrier":
                k.mbarrier.wait(done, 0)
            elif by == "poll":
                with k.loop():
                    k.break_if(word.atomic("add", 0) == 1)
            y[k.lane_id()] = x[k.lane_id()]

    with pytest.warns(nvb.DiagnosticWarning) if by == "nothing" else pytest.MonkeyPatch.context():
        assert said(kernel) == [(EARLY, "x"), (EARLY, "y")] * (by == "nothing")


def test_a_tile_that_is_loaded_before_the_wait() -> None:
    def kernel(k, a: nvb.TensorMap(f32, box=(8, 32)), y: nvb.Pointer[f32]):
        row, full = k.shared(f32, 256, align=128), k.mbarrier.array(1, arrivals=1)
        k.mbarrier.ready()
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=1024)
            k.tma.load_box(row, a, (0, 0), full)
        k.griddepcontrol("wait")
        k.mbarrier.wait(full, 0)
        y[k.thread_id()] = row[k.thread_id()]

    with pytest.warns(nvb.DiagnosticWarning):
        assert said(kernel) == [(EARLY, "a")]


def test_nothing_is_said_of_a_kernel_that_does_not_wait() -> None:
    def kernel(k, x: nvb.Pointer[f32], y: nvb.Pointer[f32]):
        y[k.thread_id()] = x[k.thread_id()]
        k.griddepcontrol("launch_dependents")

    assert said(kernel) == []


@pytest.mark.parametrize("early", [False, True])
def test_each_way_has_its_own_wait(early: bool) -> None:
    """A barrier before one of two waits tells of neither; what comes after the other way's wait is late."""

    def kernel(k, n: nvb.i32, x: nvb.Pointer[f32], y: nvb.Pointer[f32]):
        thread = k.thread_id()
        value = k.var(0.0)
        with k.if_(n > 0):
            k.barrier.sync()
            if early:
                value.set(x[thread])
            k.griddepcontrol("wait")
        with k.else_():
            k.griddepcontrol("wait")
            value.set(x[63 - thread])
        y[thread] = value

    assert said(kernel) == ([(EARLY, "x")] if early else [])


@pytest.mark.parametrize("by", ["bulk", "cp.async", "cached", "prefetch"])
def test_a_copy_from_an_address_before_the_wait(by: str) -> None:
    """Through sums of a pointer and numbers; a prefetch brings nothing into the kernel."""

    def kernel(k, n: nvb.i32, x: nvb.Pointer(f32, align=128), y: nvb.Pointer[f32]):
        row, full = k.shared(f32, 64, align=128), k.mbarrier.array(1, arrivals=1)
        k.mbarrier.ready()
        thread, place = k.thread_id(), x + n * 64 + 64
        if by == "bulk":
            with k.one_thread():
                k.mbarrier.arrive(full, expect_tx=256)
                k.bulk.load(row, place, 256, full)
        elif by == "cp.async":
            k.cp_async.copy(row + thread, place + thread, 4)
            k.cp_async.wait_group()
        elif by == "prefetch":
            k.cache.prefetch(place)
        value = (place + thread).load(cache="cg")[0] if by == "cached" else 0.0
        k.griddepcontrol("wait")
        if by == "bulk":
            k.mbarrier.wait(full, 0)
        y[thread] = value

    with pytest.warns(nvb.DiagnosticWarning) if by != "prefetch" else pytest.MonkeyPatch.context():
        assert said(kernel) == [(EARLY, "x")] * (by != "prefetch")


@pytest.mark.parametrize("order", ["weak", "relaxed"])
def test_a_word_by_which_threads_wait_for_one_another_may_be_read_before(order: str) -> None:
    """An access that has an order with those of others may be what tells that the kernels before are done."""

    def kernel(k, flag: nvb.Pointer[u32], y: nvb.Pointer[f32]):
        scope = {} if order == "weak" else {"scope": "gpu"}
        there = flag.load(order=order, **scope)[0]
        k.atomic.add(flag, 1)
        k.griddepcontrol("wait")
        y[k.thread_id()] = there.to(f32)

    with pytest.warns(nvb.DiagnosticWarning) if order == "weak" else pytest.MonkeyPatch.context():
        assert said(kernel) == [(EARLY, "flag")] * (order == "weak")


def test_an_atomic_may_come_before() -> None:
    """By it threads may wait for one another."""

    def kernel(k, flag: nvb.Pointer[u32], y: nvb.Pointer[f32]):
        before = k.atomic.add(flag, 1)
        k.griddepcontrol("wait")
        y[k.thread_id()] = before.to(f32)

    assert said(kernel) == []


def whose(function):
    """The arrays that some threads access without having waited, and these threads, in the words of the messages."""
    definition = nvb.kernel("sm_90a", threads=64)(function)
    try:
        found = definition.build(check=False).diagnostics
    except nvb.DiagnosticError as error:
        found = error.diagnostics
    assert {one.rule_id for one in found} <= {CONFLICT, EARLY}
    return [(one.message.split()[0], one.values["before"].partition(",")[0]) for one in found]


@pytest.mark.filterwarnings("ignore::nvbackend.DiagnosticWarning")
@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize("by", ["nothing", "barrier", "mbarrier", "arrival", "all", "one lane"])
def test_code_of_all_warps_after_a_wait_of_one(by: str, loop: bool) -> None:
    """Each thread waits itself, or something tells it of the wait; the lanes of a warp wait for those that do."""

    def kernel(k, n: nvb.i32, x: nvb.Pointer[f32], y: nvb.Pointer[f32]):
        done, thread = k.mbarrier.array(1, arrivals=1), k.thread_id()
        k.mbarrier.ready()
        with k.range(n) if loop else nullcontext() as turn:
            with k.one_thread() if by == "one lane" else k.if_((k.warp_id() == 0) | (by == "all")):
                k.griddepcontrol("wait")
            with k.if_(thread == 0):
                k.mbarrier.arrive(done)
            if by == "barrier":
                k.barrier.sync()
            elif by == "mbarrier":
                k.mbarrier.wait(done, turn % 2 if loop else 0)
            elif by == "arrival":
                with k.if_(k.warp_id() == 1):
                    k.barrier.arrive(1, 64)
                with k.else_():
                    k.barrier.sync(1, 64)
            y[thread] = x[thread]
            if by == "one lane":
                y[thread] = 0.0

    assert whose(kernel) == (
        [(name, "by threads 32 to 63") for name in "xy"] * (by in ("nothing", "arrival", "one lane"))
    )


@pytest.mark.filterwarnings("ignore::nvbackend.DiagnosticWarning")
@pytest.mark.parametrize("warp", [0, 1])
def test_a_tile_that_another_warp_loads_than_the_one_that_waits(warp: int) -> None:
    def kernel(k, a: nvb.TensorMap(f32, box=(8, 32)), y: nvb.Pointer[f32]):
        row, full = k.shared(f32, 256, align=128), k.mbarrier.array(1, arrivals=1)
        k.mbarrier.ready()
        with k.if_(k.warp_id() == 0):
            k.griddepcontrol("wait")
        with k.one_thread(warp):
            k.mbarrier.arrive(full, expect_tx=1024)
            k.tma.load_box(row, a, (0, 0), full)
        k.mbarrier.wait(full, 0)
        y[k.thread_id()] = row[k.thread_id()]

    assert whose(kernel) == [("a", "by threads 32 to 63")] * warp
