"""What the CTAs of a cluster and the threads of one decide of conditions and numbers: each by itself in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.row.types import i32
from nvbackend.isel.machine import facts
from nvbackend.signature import Parameter, Scalar

THREADS, CLUSTER = 64, 4
Expression = Callable[[Any, Any], Any]
CONDITIONS: dict[str, Expression] = {
    "some ranks": lambda rank, thread: rank > 1,
    "another half": lambda rank, thread: rank % 2 == 0,
    "all threads of some": lambda rank, thread: rank * THREADS + thread < 160,
    "threads of each": lambda rank, thread: thread < 40,
    "all": lambda rank, thread: rank + thread >= 0,
    "nobody": lambda rank, thread: rank + thread < 0,
    "one thread": lambda rank, thread: rank * THREADS + thread == 70,
}
NUMBERS: dict[str, Expression] = {
    "its own": lambda rank, thread: rank,
    "the next": lambda rank, thread: (rank + 1) % CLUSTER,
    "beyond": lambda rank, thread: rank + 2,
    "before": lambda rank, thread: rank - 1,
    "the same": lambda rank, thread: rank * 0 + 3,
    "each thread's": lambda rank, thread: thread % CLUSTER,
}


def new() -> KernelBuilder:
    return KernelBuilder("f", "sm_90a", threads=THREADS, cluster=CLUSTER, parameters=[Parameter("n", Scalar(i32))])


@pytest.mark.parametrize("what", CONDITIONS)
def test_a_condition_holds_in_whole_ctas_or_for_threads_of_each(what: str) -> None:
    k, of = new(), CONDITIONS[what]
    condition = of(k.cluster.rank().to(i32), k.thread_id().to(i32)).ir
    table = [[bool(of(rank, thread)) for thread in range(THREADS)] for rank in range(CLUSTER)]
    bits = [
        sum(1 << rank for rank in range(CLUSTER) if all(one is side for one in table[rank])) for side in (True, False)
    ]
    assert k.core.execution.ranks(condition) == tuple(bits)
    sides = k.core.execution.sides(condition)
    if all(row == table[0] for row in table) and "rank" not in what:
        alike = [sum(1 << thread for thread in range(THREADS) if table[0][thread] is side) for side in (True, False)]
        assert sides in (None, tuple(alike))
    else:
        assert sides is None


def test_a_condition_of_the_threads_alone_has_its_sides() -> None:
    k = new()
    assert k.core.execution.sides((k.thread_id() < 40).ir) == ((1 << 40) - 1, (1 << THREADS) - (1 << 40))
    assert k.core.execution.sides((k.arguments[0] < 40).ir) is None
    assert k.core.execution.ranks((k.arguments[0] < 40).ir) == (0, 0)


@pytest.mark.parametrize("what", NUMBERS)
def test_the_number_of_each_cta(what: str) -> None:
    k, of = new(), NUMBERS[what]
    value = of(k.cluster.rank().to(i32), k.thread_id().to(i32)).ir
    numbers = None if what == "each thread's" else tuple(of(rank, 0) for rank in range(CLUSTER))
    assert k.core.execution.in_each_cta(value) == numbers
    peers = {own: peer for own, peer in enumerate(numbers or ()) if 0 <= peer < CLUSTER}
    found = k.core.execution.first_peers(value)
    assert found == (sum(1 << own * facts.MOST_CTAS + peer for own, peer in peers.items()) if peers else None)
    for own in range(CLUSTER) if found is not None else ():
        assert facts.peers_of(found, own) == [peer for peer in [peers.get(own, own)] if peer != own]
