"""Threads that write over an mbarrier: the life of the barrier says so, and not that they race there."""

from __future__ import annotations

import pytest

from nvbackend import KernelBuilder, u64
from nvbackend.diagnostics import gather
from nvbackend.signature import Parameter, Pointer

THREADS, WORDS = 64, 128
OVERWRITTEN, RACE = "mbarrier.overwritten", "shared.missing-barrier"


def told(first: int, place: int, *, initialised: bool = True, elsewhere: bool = False) -> list[str]:
    """Each thread writes one word, `first` that of thread 0, and reads that of another; a barrier is at `place`."""
    k = KernelBuilder("kernel", "sm_90a", threads=THREADS, parameters=[Parameter("x", Pointer(u64, 8))])
    (x,) = k.arguments
    words, others = (k.shared(u64, WORDS, align=8, name=name) for name in ("words", "others"))
    barrier, thread = (others if elsewhere else words) + place, k.thread_id()
    if initialised:
        with k.if_(thread == 0):
            k.mbarrier.init(barrier, 1)
    k.mbarrier.ready()
    with k.if_(thread == 0):
        k.mbarrier.arrive(barrier)
    words[first + thread] = x[thread]
    x[thread] = words[first + THREADS - 1 - thread]
    return sorted({one.rule_id for one in gather(k.finish)} & {OVERWRITTEN, RACE})


@pytest.mark.parametrize("place", [0, 1, 5, 6, 37, 68, 69, 70, 127])
@pytest.mark.parametrize("first", [0, 6])
def test_who_writes_over_a_barrier_makes_that_mistake_alone(first: int, place: int) -> None:
    assert told(first, place) == ([OVERWRITTEN] if first <= place < first + THREADS else [RACE])


def test_a_word_that_is_no_barrier_is_raced_for() -> None:
    assert told(0, 5, initialised=False) == told(0, 5, elsewhere=True) == [RACE]
