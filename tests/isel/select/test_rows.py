"""What keeps a row from a target: the gates of its request and its own features and version say the same."""

from __future__ import annotations

import random
from collections.abc import Iterable
from types import ModuleType

import pytest

from nvbackend.intrinsics.copy import tma_tensor
from nvbackend.intrinsics.mma import mma, tcgen05, wgmma, wmma
from nvbackend.intrinsics.sync import barriers
from nvbackend.isel.select.rows import asked_of, faults, general_faults, in_words, is_legal
from nvbackend.isel.target.target import Target, lowest_ptx_version, target_names, why_not

FAMILIES = (mma, tcgen05, tma_tensor, wgmma, wmma)
NEWEST = tuple(map(Target.parse, target_names()))
TARGETS = (*NEWEST, *(Target.parse(each.name, lowest_ptx_version(each.number, each.suffix)) for each in NEWEST))
"""Every target at its newest and its oldest PTX version."""
SAMPLE = 60


@pytest.mark.parametrize("family", FAMILIES, ids=lambda module: str(module.__name__).rpartition(".")[2])
def test_a_request_is_refused_exactly_where_its_row_is_not_there(family: ModuleType) -> None:
    """Each row says its features once, and the gates of the family say them again."""
    asked = [(row, found) for row in family.rows() if (found := asked_of(row)) is not None]
    verdicts = set()
    for row, found in random.Random(7).sample(asked, SAMPLE):
        assert found.row == row
        for target in TARGETS:
            refused = why_not(found.gates, found.request, target)
            assert bool(refused) == bool(general_faults(row, target, {})), f"{row.ptx} on {target}"
            assert is_legal(row, target) == (not refused), f"{row.ptx} on {target}"
            verdicts.add(bool(refused))
    assert verdicts == {False, True}


def test_a_row_that_no_request_asks_for_has_its_own_gates_alone() -> None:
    row = barriers.fence_proxy_async()
    assert asked_of(row) is None
    assert [each.rule_id for each in faults(row, Target.parse("sm_80"), {})] == [
        "target.feature",
        "target.row-ptx-version",
    ][:1]
    assert [is_legal(row, Target.parse(name)) for name in ("sm_80", "sm_90")] == [False, True]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([], ""),
        ([5], "5"),
        ([1, 0], "0 or 1"),
        ([4, 8], "4 or 8"),
        (range(1, 4), "1 to 3"),
        (range(24, 257, 8), "24 to 256 by 8"),
        ([4, 0, 2], "0 to 4 by 2"),
        ([1, 2, 4], "1 or 2 or 4"),
    ],
)
def test_legal_values_in_words(values: Iterable[int], words: str) -> None:
    assert in_words(values) == words
