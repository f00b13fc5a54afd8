"""What keeps threads together and orders them: groups of named barriers, ways through loops, copies that land late."""

from __future__ import annotations

import itertools
import random

import pytest

from nvbackend.isel.flow.dataflow import sites_of
from nvbackend.isel.protocols.shared.syncs import Syncs, together
from tests.isel.protocols.shared.test_races import MISSING, Program

WARP = (1 << 32) - 1


def _partition(numbers: random.Random, threads: int) -> dict[int, int]:
    """Some of the threads, each in a group."""
    return {thread: numbers.randrange(3) for thread in range(threads) if numbers.random() < 0.8}


def _groups(where: dict[int, int]) -> tuple[int, ...]:
    return tuple(
        sum(1 << thread for thread, group in where.items() if group == one) for one in sorted({*where.values()})
    )


def test_two_barriers_keep_together_whom_both_do() -> None:
    numbers = random.Random(5)
    for _ in range(200):
        first, second = _partition(numbers, 8), _partition(numbers, 8)
        found = together(_groups(first), _groups(second))
        for one, other in itertools.product(range(8), repeat=2):
            both = all(one in side and other in side and side[one] == side[other] for side in (first, second))
            assert any(group >> one & group >> other & 1 for group in found) == both


@pytest.mark.parametrize(("warps", "count", "known"), [(2, 64, True), (2, 128, False), (4, 128, True)])
def test_a_named_barrier_keeps_together_as_many_as_it_counts(warps: int, count: int, known: bool) -> None:
    """Where others come too, each of the group may be let go at another time; that too many come is refused."""
    p = Program()
    with p.k.if_(p.k.warp_id() < warps):
        p.k.barrier.sync(1, threads=count)
    p.k.return_()
    p.k.core.link()
    sites = sites_of(p.k.machine)
    (site,) = [one for found in sites.values() for one in found if one.instr.operands.get("threads") == str(count)]
    expected = (sum(WARP << 32 * warp for warp in range(warps)),) if known else ()
    assert Syncs(p.k.machine, sites).groups(site) == expected


def test_a_way_by_the_first_access_again_is_not_a_way_from_it() -> None:
    """The barrier at the end of a round orders the round before: not what this one has written."""
    p = Program()
    with p.k.range(p.n):
        p.write()
        with p.k.if_(p.n > 3):
            p.read()
        p.k.barrier.sync()
    assert p.rules() == [MISSING]


def test_a_copy_that_lands_is_not_said_to_overwrite() -> None:
    """What its own threads wait for is an access for those that follow; the copy itself was before the barrier.

    That the read is in front of the wait is async-copy.read-before-wait, not a race that a barrier puts right.
    """
    p = Program()
    p.k.cp_async.copy(p.buffer + p.thread, p.pointer + p.thread, 4)
    p.k.cp_async.commit_group()
    p.k.barrier.sync()
    p.read()
    p.k.cp_async.wait_group(0)
    assert p.rules() == []
