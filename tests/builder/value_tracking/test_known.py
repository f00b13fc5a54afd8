"""The lattice of the evaluator: scopes of numbers by comparing them thread by thread, and the join of two values."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from nvbackend.builder.thread_tables.table import Table
from nvbackend.builder.value_tracking.known import Known, meet
from nvbackend.intrinsics.row.semantics import Scope
from tests.support.tables import array, table


def scope(numbers: np.ndarray) -> Scope:
    """The largest scope of which all threads have one number. The axes are who is elected, rank, thread.

    A lane may be elected anew for each warp, so who is elected is one for a warp, and not for what is larger.
    """
    if len(set(numbers.ravel().tolist())) == 1:
        return Scope.GRID
    leaders, ranks, threads = numbers.shape

    def is_one(places: list[tuple[int, int, int]]) -> bool:
        return len({int(numbers[place]) for place in places}) == 1

    if all(is_one([*itertools.product(range(leaders), [rank], range(threads))]) for rank in range(ranks)):
        return Scope.CTA
    for size, elected in ((128, None), (32, range(leaders))):
        starts = range(0, threads, size)
        groups = [
            [*itertools.product(range(leaders) if elected is None else [leader], [rank], range(threads)[start:][:size])]
            for leader in (elected or [0])
            for rank in range(ranks)
            for start in starts
        ]
        if all(map(is_one, groups)):
            return Scope.WARPGROUP if size == 128 else Scope.WARP
    return Scope.THREAD


def drawn(chance: random.Random) -> np.ndarray:
    """Numbers that differ by some of: who is elected, rank, warpgroup, warp, thread; a few at random."""
    leaders, ranks, threads = chance.choice((1, 1, 2, 3)), chance.choice((1, 2, 3)), chance.choice((1, 40, 128, 300))
    leader, rank, thread = np.indices((leaders, ranks, threads))
    parts = {"leader": leader, "rank": rank, "group": thread // 128, "warp": thread // 32, "thread": thread}
    chosen = chance.sample([*parts], chance.randint(0, 2))
    numbers = sum((parts[name] * (7 ** (place + 1)) for place, name in enumerate(chosen)), np.zeros_like(leader))
    if chance.random() < 0.3:
        numbers[chance.randrange(leaders), chance.randrange(ranks), chance.randrange(threads)] += 1
    return numbers.astype(np.uint64)


def test_the_scope_of_numbers_is_that_of_the_threads_which_share_them() -> None:
    seen: set[Scope] = set()
    for seed in range(400):
        numbers = drawn(random.Random(seed))
        known = Known(table(numbers))
        assert known.certain is known.apparent is scope(numbers), (seed, numbers.shape)
        seen.add(known.certain)
    assert seen == {Scope.THREAD, Scope.WARP, Scope.WARPGROUP, Scope.CTA, Scope.GRID}


def numbers(*values: int) -> Table:
    return table(np.array(values, dtype=np.uint64).reshape(1, 1, -1))


def where() -> Table:
    return table(np.array([True, False]).reshape(1, 1, -1))


def different() -> list[Known]:
    return [
        Known(),
        Known(apparent=Scope.WARP),
        Known(certain=Scope.WARP),
        Known(numbers(1, 2)),
        Known(numbers(1, 3)),
        Known(numbers(1, 2), where()),
        Known(numbers(1, 2), ~where()),
        Known(numbers(1, 3), where()),
        Known(parts=(Known(),)),
        Known(parts=(Known(numbers(1, 2)),)),
        Known(parts=(Known(numbers(1, 2)), Known())),
    ]


DIFFERENT = different()


@pytest.mark.parametrize("one", range(len(DIFFERENT)))
def test_values_are_equal_where_the_same_is_known(one: int) -> None:
    for others in (DIFFERENT, different()):
        for other in range(len(DIFFERENT)):
            assert DIFFERENT[one].equals(others[other]) is (one == other), (one, other)
    again = Known(numbers(1, 2), where(), certain=Scope.WARP, parts=(Known(),))
    assert again.equals(Known(numbers(1, 2), where(), certain=Scope.WARP, parts=(Known(),)))


def test_the_join_keeps_what_all_have() -> None:
    assert meet([]) is None
    for one in DIFFERENT:
        assert meet([one, one]) is meet([one]) is one
    one, other = Known(numbers(1, 2), parts=(Known(numbers(5, 5)), Known(numbers(1, 1)))), Known(apparent=Scope.WARP)
    joined = meet([one, other])
    assert joined is not None
    assert (joined.numbers, joined.certain, joined.apparent) == (None, Scope.THREAD, Scope.THREAD)
    assert joined.parts == ()
    parts = meet([one, Known(parts=(Known(numbers(5, 5)), Known(numbers(1, 3), certain=Scope.WARP)))])
    assert parts is not None
    assert [part.is_whole for part in parts.parts] == [True, False]


@pytest.mark.parametrize("seed", range(8))
def test_predicates_of_each_thread(seed: int) -> None:
    """Where a number is not known, the predicate neither holds nor fails for certain."""
    chance = np.random.default_rng(seed)
    for threads in (1, 32, 40, 96):
        shape = (1, int(chance.integers(1, 3)), threads)
        few = chance.random(shape) < (0.02, 0.5)[seed % 2]
        sure_of = np.full(shape, True) if seed % 4 == 0 else chance.random(shape) < 0.97
        known = Known(table(few.astype(np.uint64) * 2), None if seed % 4 == 0 else table(sure_of))
        held, failed = known.holds(), known.fails()
        assert held is not None
        assert failed is not None
        holds, fails = array(held).astype(bool), array(failed).astype(bool)
        most = 0
        for place in np.ndindex(shape):
            sure = sure_of[place]
            assert (holds[place], fails[place]) == (sure and few[place], sure and not few[place])
        for rank, start in itertools.product(range(shape[1]), range(0, threads, 32)):
            most = max(most, int((~fails[0, rank, start : start + 32]).sum()))
        if threads > 1:
            assert known.is_one_lane(threads) is known.is_one_lane(threads) is (most <= 1)


def test_a_predicate_of_all_threads_at_once_holds_in_one_lane_where_it_fails() -> None:
    assert Known(numbers(0)).is_one_lane(64)
    assert not Known(numbers(1)).is_one_lane(64)
    assert not Known().is_one_lane(64)
    assert Known().holds() is Known().fails() is None


@pytest.mark.parametrize(("width", "signed"), [(32, -1), (64, 2**32 - 1), (1, 2**32 - 1)])
def test_numbers_per_thread_have_a_sign(width: int, signed: int) -> None:
    """Those of predicates have none, and those that depend on more than the thread are not one for each."""
    known = Known(numbers(2**32 - 1, 5))
    assert known.per_thread(2, width) == known.per_thread(2, width) == (signed, 5)
    assert Known(numbers(7)).per_thread(3, 32) == (7, 7, 7)
    assert Known(numbers(7, 8), where()).per_thread(2, 32) is Known().per_thread(2, 32) is None
    for shape in ((2, 1, 2), (1, 2, 2)):
        assert Known(table(np.arange(4, dtype=np.uint64).reshape(shape))).per_thread(2, 32) is None
