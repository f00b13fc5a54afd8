"""Who executes what: one thread of a warp, warps that there are, barriers that all can reach."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import i32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.signature import Parameter, Scalar


def builder(threads=128, **bounds):
    return KernelBuilder("roles", "sm_90a", threads=threads, parameters=[Parameter("a", Scalar(i32))], **bounds)


def in_one_thread(call):
    def broken(k):
        with k.one_thread():
            call(k)

    return broken


def elected_by_hand(k):
    chosen = k.elect()
    with k.if_((k.arguments[0] > 0) & (chosen & (k.thread_id() < 32))), k.if_(k.arguments[0] > 1):
        k.barrier.sync()


def one_index_by_hand(k):
    with k.if_(k.thread_id() == 5):
        k.barrier.sync()


TOGETHER = {
    "barrier": lambda k: k.barrier.sync(),
    "wgmma fence": lambda k: k.wgmma.fence(),
    "shuffle": lambda k: k.uniform(k.arguments[0]),
    "election": lambda k: k.elect(),
    "registers": lambda k: k.setmaxnreg.inc(40),
}


@pytest.mark.parametrize("call", TOGETHER.values(), ids=TOGETHER)
def test_what_a_warp_executes_does_not_stand_where_one_thread_runs(call):
    for broken in (in_one_thread(call), elected_by_hand, one_index_by_hand):
        with pytest.raises(nvb.DiagnosticError) as caught:
            broken(builder())
        (found,) = caught.value.diagnostics
        assert found.rule_id == "control.one-thread"
        assert found.location is not None and found.location.file == __file__


def test_what_one_thread_may_execute():
    """The other side: mbarriers in one thread, a whole warp's work behind the block and in other branches."""
    k = builder()
    barriers = k.mbarrier.array(1, arrivals=1)
    with k.one_thread():
        k.mbarrier.arrive(barriers, expect_tx=0)
    with k.else_():
        k.fence.proxy_async()
    with k.if_(k.warp_id() == 1):
        k.uniform(k.arguments[0])
    k.barrier.sync()
    assert "bar.sync" in str(k.finish().machine)


@pytest.mark.parametrize("warp", [4, -1])
def test_a_warp_that_there_is_not(warp):
    with pytest.raises(nvb.DiagnosticError, match="use 0 to 3") as caught:
        builder().one_thread(warp).__enter__()
    assert caught.value.diagnostics[0].rule_id == "kernel.warp"


@pytest.mark.parametrize(
    ("coming", "warp", "there"),
    [
        (lambda k: k.warp_id() == 1, 0, "warp 1"),
        (lambda k: k.warpgroup_id() == 1, 0, "warps 4 to 7"),
        (lambda k: k.warp_id() % 3 == 1, 5, "warps 1, 4 and 7"),
        (lambda k: k.thread_id() == 40, 2, "warp 1"),
    ],
)
def test_the_thread_of_a_warp_that_does_not_come(coming, warp, there):
    k = builder(256)
    with pytest.raises(nvb.DiagnosticError, match=f"only {there} may come here") as caught, k.if_(coming(k)):
        k.one_thread(warp).__enter__()
    (found,) = caught.value.diagnostics
    first = there.replace(",", "").split()[1]
    assert (found.rule_id, found.fix) == ("control.other-warp", f"name a warp that comes here: k.one_thread({first})")
    assert found.location is not None and found.location.file == __file__


@pytest.mark.parametrize(
    ("coming", "warp"),
    [
        (lambda k: k.warpgroup_id() == 1, 5),
        (lambda k: k.block_id() == 1, 0),
        (lambda k: k.arguments[0] == 2, 3),
        (lambda k: k.thread_id() >= 256, 0),
    ],
)
def test_the_thread_of_a_warp_that_may_come(coming, warp):
    """As far as is known; a block that these constants leave to no thread at all is nobody's mistake."""
    k = builder(256)
    with k.if_(coming(k)), k.one_thread(warp):
        k.nanosleep(1)
    with k.if_(k.warp_id() == 0):
        k.nanosleep(1)
    with k.else_(), pytest.raises(nvb.DiagnosticError, match="warps 1 to 7"):
        k.one_thread().__enter__()


def of_first_warps(k, warps, number, threads, **options):
    with k.if_(k.warp_id() < warps):
        k.barrier.sync(number(k), threads, **options)


@pytest.mark.parametrize(
    ("warps", "number", "threads", "coming"),
    [
        (2, lambda k: 1, 32, 64),
        (4, lambda k: 1, 96, 128),
        (4, lambda k: k.warp_id() // 2, 32, 64),
        (4, lambda k: k.warp_id(), 32, 0),
        (2, lambda k: 1, 64, 0),
        (2, lambda k: 1, 128, 0),
        (4, lambda k: k.block_id(), 32, 0),
    ],
)
@pytest.mark.parametrize("aligned", [True, False])
def test_a_barrier_is_for_all_that_come_to_it(warps, number, threads, coming, aligned):
    k = builder()
    if not coming:
        of_first_warps(k, warps, number, threads, aligned=aligned)
        return
    with pytest.raises(nvb.DiagnosticError, match=f"{coming} threads come .* every {threads} of them") as caught:
        of_first_warps(k, warps, number, threads, aligned=aligned)
    assert caught.value.diagnostics[0].rule_id == "barrier.crowd"


@pytest.mark.parametrize("around", [128, 96])
@pytest.mark.parametrize("call", ["break_if", "continue_if", "return_if"])
def test_who_has_left_a_round_comes_to_no_barrier_in_it(call, around):
    """Not after the branch, not in the next round, and not after the loop where the kernel has ended for them."""
    k = builder()
    with k.range(k.arguments[0]):
        k.barrier.sync(2, 128) if call == "continue_if" else k.nanosleep(1)
        with k.if_(k.thread_id() < around):
            getattr(k, call)(k.thread_id() >= 64)
            k.barrier.sync(1, 64)
    if call == "return_if" and around == 128:
        k.barrier.sync(1, 64)
        with pytest.raises(nvb.DiagnosticError, match="128 threads come"):
            builder().barrier.sync(1, 64)


def test_all_that_arrive_or_reduce_are_counted_too():
    for call in (
        lambda k: k.barrier.arrive(1, 64),
        lambda k: k.barrier.reduce("popc", k.thread_id() > 3, 1, threads=64),
    ):
        with pytest.raises(nvb.DiagnosticError, match="128 threads come") as caught:
            call(builder())
        assert caught.value.diagnostics[0].rule_id == "barrier.crowd"


def test_a_barrier_waits_for_threads_that_there_are():
    builder(256).barrier.sync(1, 256)
    with pytest.raises(nvb.DiagnosticError, match="waits for 256 threads; the CTA has 128") as caught:
        builder().barrier.sync(1, 256)
    assert caught.value.diagnostics[0].rule_id == "barrier.waits"
