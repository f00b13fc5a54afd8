"""Whose mbarriers one execution reaches, by its mask and the CTA of its barrier: one CTA and thread after the other."""

from __future__ import annotations

import itertools

import pytest

from nvbackend.builder.value_tracking.cluster_execution import Numbers, _addressed
from nvbackend.intrinsics.copy import tma_tensor
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.sync import mbarrier

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
