"""Whose mbarriers one execution reaches, by its mask and the CTA of its barrier: one CTA and thread after the other."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
from llvmlite import ir

from nvbackend.builder.thread_tables.tables import Cta
from nvbackend.builder.value_tracking.cluster_execution import ClusterExecution, Numbers, _addressed
from nvbackend.builder.value_tracking.known import Known
from nvbackend.intrinsics.copy import tma_tensor
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.sync import mbarrier
from tests.support.tables import table

RANKS, THREADS = 4, 3


def given(by_thread: bool, factor: int) -> Numbers:
    return Numbers(lambda rank, thread: rank + factor * (thread if by_thread else 0) + 1, by_thread)


def addressed(row: Row, mask: Numbers | None, owner: Numbers | None) -> Numbers | None:
    return _addressed(row.semantics, mask, owner, paired=row.axes.get("cta_group") == 2)


def reached(row: Row, mask: int, owner: int) -> int:
    """PTX ISA 9.7.9 (cp.async.bulk.tensor): the CTAs of ctaMask; of pairs those whose parity is the barrier's."""
    if not row.semantics.multicast:
        return 1 << owner
    if row.axes.get("cta_group") != 2:
        return mask
    each = [1 << (rank & ~1 | owner & 1) for rank in range(16) if mask >> rank & 1]
    once, twice = set(each), {one for one in each if each.count(one) > 1}
    return sum(once) + (sum(twice) << 16)


ROWS = {
    "arrive": mbarrier.arrive("cluster"),
    "multicast": tma_tensor.load_tensor(2, multicast=True),
    "pair": tma_tensor.load_tensor(2, multicast=True, cta_group=2),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize(("mask_differs", "owner_differs"), itertools.product((False, True), repeat=2))
def test_the_ctas_are_those_of_each_thread(row: Row, mask_differs: bool, owner_differs: bool) -> None:
    mask, owner = given(mask_differs, 5), given(owner_differs, 3)
    found = addressed(row, mask, owner)
    assert found is not None
    used = {"arrive": (owner_differs,), "multicast": (mask_differs,), "pair": (mask_differs, owner_differs)}
    assert found.by_thread is any(used[next(name for name in ROWS if ROWS[name] is row)])
    for place in itertools.product(range(RANKS), range(THREADS)):
        assert found.at(*place) == reached(row, mask.at(*place), owner.at(*place))


def test_nothing_is_known_where_what_decides_is_not() -> None:
    number = given(False, 1)
    assert addressed(ROWS["arrive"], number, None) is None
    assert addressed(ROWS["multicast"], None, number) is None
    assert addressed(ROWS["multicast"], number, None) is not None
    assert addressed(ROWS["pair"], None, number) is addressed(ROWS["pair"], number, None) is None


class Given:
    """Who executes an instruction, as lists of threads of which one does each time; None where it is not known."""

    def __init__(self, groups: list[list[list[int]]] | None) -> None:
        self.groups = groups

    def in_cta(self, rank: int) -> SimpleNamespace:
        assert self.groups is not None
        return SimpleNamespace(candidates=self.groups[rank])


def every_choice(groups: list[list[int]] | None) -> Iterator[tuple[int, ...]]:
    """The threads that execute it in one CTA, in each way; of what is not known one thread alone, whichever."""
    return itertools.product(*groups) if groups is not None else ((thread,) for thread in range(THREADS))


@pytest.mark.parametrize("seed", range(40))
def test_what_is_reached_is_what_every_choice_of_threads_reaches(seed: int) -> None:
    rng = random.Random(seed)
    row = ROWS[rng.choice(list(ROWS))]
    tables = {}
    for name, most in (("mask", 16), ("owner", RANKS + 1)):
        same = rng.random() < 0.3
        of_cta = [
            [rng.randrange(most) | (1 << 20 if name == "mask" and rng.random() < 0.2 else 0)] for _ in range(RANKS)
        ]
        of_thread = [[rng.choice((number, rng.randrange(most))) for _ in range(THREADS)] for (number,) in of_cta]
        tables[name] = np.array([of_cta if same else of_thread], np.uint64)
    groups = None
    if rng.random() < 0.8:
        groups = [
            [rng.sample(range(THREADS), rng.randint(1, 2)) for _ in range(rng.randint(0, 3))] for _ in range(RANKS)
        ]
    place = {name: ir.Constant(ir.IntType(32), None) for name in tables}
    known = {id(place[name]): Known(table(numbers)) for name, numbers in tables.items()}
    execution = ClusterExecution(
        Cta(THREADS, RANKS), lambda value: known[id(value)], lambda _: None if groups is None else Given(groups)
    )
    owner = execution.numbers(place["owner"])
    assert owner is not None
    found = execution.reach(row.semantics, place["mask"], owner, None, paired=row is ROWS["pair"])
    for rank in range(RANKS):
        here = None if groups is None else groups[rank]
        ways = []
        masks = set()
        for threads in every_choice(here):
            each = []
            for thread in threads:
                mask, to = (
                    int(np.broadcast_to(numbers, (1, RANKS, THREADS))[0, rank, thread]) for numbers in tables.values()
                )
                mask &= 0xFFFF
                masks.add(mask)
                each.append(reached(row, mask, to))
            ways.append([sum((one >> cta & 1) + (one >> 16 + cta & 1) for one in each) for cta in range(RANKS)])
        assert found.threads[rank] == (None if here is None else len(here))
        assert found.targets[rank] == sum(1 << cta for cta in range(RANKS) if any(way[cta] for way in ways))
        assert found.certain[rank] == sum(1 << cta for cta in range(RANKS) if all(way[cta] for way in ways))
        assert not masks or found.masks[rank] == (masks.pop() if len(masks) == 1 else None)
        same = len({tuple(way) for way in ways}) == 1
        assert found.counts[rank] is None or (here is not None and same and found.counts[rank] == tuple(ways[0]))


@pytest.mark.parametrize("seed", range(30))
def test_the_first_that_certainly_executes_and_is_so(seed: int) -> None:
    rng = random.Random(seed)
    groups = [[rng.sample(range(THREADS), rng.randint(1, 3)) for _ in range(rng.randint(0, 2))] for _ in range(RANKS)]
    so = {place: rng.random() < 0.6 for place in itertools.product(range(RANKS), range(THREADS))}
    execution = ClusterExecution(Cta(THREADS, RANKS), lambda _: Known(), lambda guard: guard)
    expected = [
        (rank, group[0])
        for rank, each in enumerate(groups)
        for group in each
        if all(so[rank, thread] for thread in group)
    ]
    assert execution.first(Given(groups), lambda *place: so[place]) == (expected[0] if expected else None)
    assert execution.first(None, lambda *place: so[place]) is None
    assert execution.first(None, lambda *_: True) == (0, 0)
    assert [execution.own.at(*place) for place in so] == [rank for rank, _ in so]


def test_a_number_is_known_in_the_threads_of_one_cluster_alone() -> None:
    """Not what other clusters of the grid have too, nor what only some threads are known to have."""
    numbers = np.arange(RANKS * THREADS, dtype=np.uint64).reshape(1, RANKS, THREADS)
    here = table(np.ones((1, RANKS, THREADS), bool))
    for known, is_known in (
        (Known(table(numbers)), True),
        (Known(table(numbers), here), False),
        (Known(table(np.concatenate((numbers, numbers)))), False),
        (Known(), False),
    ):
        execution = ClusterExecution(Cta(THREADS, RANKS), lambda _, known=known: known, lambda _: None)
        found = execution.numbers(ir.Constant(ir.IntType(32), None))
        assert (found is not None) is is_known
        assert found is None or all(
            found.at(*place) == numbers[0][place] for place in itertools.product(range(RANKS), range(THREADS))
        )


def test_of_a_barrier_whose_cta_is_not_known_none_is_certain() -> None:
    groups: list[list[list[int]]] = [[[0], [2]], [], [[1, 2]], [[0], [1], [2]]]
    execution = ClusterExecution(Cta(THREADS, RANKS), lambda _: Known(), lambda guard: guard)
    found = execution.reach(ROWS["arrive"].semantics, None, None, Given(groups), paired=False)
    assert found.threads == (2, 0, 1, 3)
    assert found.targets == (None, 0, None, None)
    assert found.certain == (0, 0, 0, 0)
    assert found.counts == (None, (0,) * RANKS, None, None)
