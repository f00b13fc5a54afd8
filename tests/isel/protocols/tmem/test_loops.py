"""Waits that may be the one for an mma: in the loop of it, and on an mbarrier that is not known."""

from __future__ import annotations

import pytest

from nvbackend.intrinsics.row.types import u32, u64
from tests.isel.protocols.tmem.test_protocol import COLUMNS, issue, new, read, told


@pytest.mark.parametrize(
    ("where", "expected"), [("inside", []), ("before", ["missing-wait"]), ("never", ["missing-wait"])]
)
@pytest.mark.parametrize("rounds", [None, 4])
def test_a_wait_in_the_loop_of_the_mma_is_enough(where: str, expected: list[str], rounds: int | None) -> None:
    """All threads wait in each round; without a round there is no mma. A loop before that one says nothing of it."""
    k = new(128)
    done = k.mbarrier.array(1, 1)
    k.mbarrier.ready()
    with k.tcgen05.tmem(COLUMNS) as tmem:
        if where == "before":
            with k.range(k.arguments[1]) as step:
                k.mbarrier.wait(done, step % 2)
        with k.range(k.arguments[1] if rounds is None else rounds) as step:
            with k.one_thread():
                issue(k, tmem)
                k.tcgen05.commit(done)
            if where == "inside":
                k.mbarrier.wait(done, step % 2)
        k.tcgen05.fence_after_thread_sync()
        read(k, tmem)
    assert {rule.removeprefix("tcgen05.") for rule in told(k)} == {*expected}


def test_a_wait_on_a_barrier_that_is_not_known_may_be_the_one() -> None:
    k = new()
    done = k.mbarrier.array(1, 1)
    k.mbarrier.ready()
    with k.tcgen05.tmem(COLUMNS) as tmem:
        with k.one_thread(2):
            issue(k, tmem)
            k.tcgen05.commit(done)
        k.mbarrier.wait(k.shared_address(k.arguments[1].to(u32), u64, 8), 0)
        k.tcgen05.fence_after_thread_sync()
        with k.if_(k.warp_id() < 4):
            read(k, tmem)
    assert told(k) == []
