"""Arrivals of a CTA itself and of peers in loops: which of them are certainly summed up for one phase."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

import nvbackend as nvb
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.diagnostics import gather
from nvbackend.signature import Parameter, Scalar

WRONG = "mbarrier.arrivals-in-peer"


def said(count: int, *, remote: int | None, rounds: int | None) -> list[str]:
    """Rank 0 waits for `count` arrivals in a loop in each round of which rank `remote` arrives.

    Or each CTA arrives there itself, and rank 1 once for rank 0.
    """
    k = KernelBuilder("kernel", "sm_90a", threads=64, cluster=2, parameters=[Parameter("n", Scalar(nvb.i32))])
    full = k.mbarrier.array(1, arrivals=count)
    k.mbarrier.ready()
    (n,) = k.arguments
    rank = k.cluster.rank()
    if remote is None:
        with k.if_(rank == 1), k.one_thread():
            k.mbarrier.arrive(full, rank=0)
    with k.range(n if rounds is None else rounds):
        if remote is None:
            with k.one_thread():
                k.mbarrier.arrive(full)
            k.mbarrier.wait(full, 0)
        else:
            with k.if_(rank == remote), k.one_thread():
                k.mbarrier.arrive(full, rank=0)
            with k.if_(rank == 0):
                k.mbarrier.wait(full, 0)
    k.cluster.sync()
    return [one.rule_id for one in gather(k.finish) if one.rule_id == WRONG]


@pytest.mark.parametrize("rounds", [None, 2])
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_ones_own_arrival_and_wait_in_a_loop_are_of_one_phase(count: int, rounds: int | None) -> None:
    assert said(count, remote=None, rounds=rounds) == ([] if count == 1 else [WRONG])


@pytest.mark.parametrize("rounds", [None, 2, 5])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_peer_may_run_ahead_and_fill_a_phase_in_several_rounds(count: int, rounds: int | None) -> None:
    assert said(count, remote=1, rounds=rounds) == []


@pytest.mark.parametrize("waiting", [0, 1, None])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_phase_that_nobody_waits_for_may_stay_open(count: int, waiting: int | None) -> None:
    """Each CTA arrives at its own, and rank 1 at that of rank 0 too: two arrivals there, and one at its own."""
    k = KernelBuilder("kernel", "sm_90a", threads=64, cluster=2)
    full = k.mbarrier.array(1, arrivals=count)
    k.mbarrier.ready()
    rank = k.cluster.rank()
    with k.one_thread():
        k.mbarrier.arrive(full)
    with k.if_(rank == 1), k.one_thread():
        k.mbarrier.arrive(full, rank=0)
    with k.if_(rank == waiting) if waiting is not None else nullcontext():
        k.mbarrier.wait(full, 0)
    k.cluster.sync()
    found = [one.values["rank"] for one in gather(k.finish) if one.rule_id == WRONG]
    wrong = [rank for rank, arrivals in enumerate((2, 1)) if count not in range(1, arrivals + 1)]
    assert found == [rank for rank in wrong if waiting in (rank, None)][:1]
