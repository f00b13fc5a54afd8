"""For every row of the catalogue there is a builder call that emits it."""

from __future__ import annotations

import functools
import itertools
import random

import pytest

from nvbackend.intrinsics.catalogue import FAMILIES
from nvbackend.intrinsics.row.row import Row
from tests.support.row_bench import Bench
from tests.support.row_calls import CALLS, emits
from tests.support.rows import newest_target

SAMPLED = 12
"""Rows of one opcode, and of those of const memory, in the ordinary run: the first, the plainest, is one of them."""
ROWS_A_KERNEL = 40


@functools.cache
def rows_of(family: str) -> tuple[Row, ...]:
    return tuple(FAMILIES[family]())


def _kind(row: Row) -> tuple[str, bool]:
    return row.opcode, bool(row.axes.get("constant"))


def sample(family: str) -> list[Row]:
    rng = random.Random(family)
    chosen = []
    for _, rows in itertools.groupby(sorted(rows_of(family), key=_kind), key=_kind):
        every = list(rows)
        chosen += every[:1] + rng.sample(every[1:], min(SAMPLED, len(every)) - 1)
    return chosen


def without_a_call(rows: list[Row]) -> dict[str, str]:
    """The rows that the call of their opcode does not emit, and what it did; kernels do not grow without bound."""
    missing: dict[str, str] = {}
    rows = sorted(rows, key=lambda row: (newest_target(row).name, row.opcode))
    for target, group in itertools.groupby(rows, key=newest_target):
        for place, row in enumerate(group):
            if place % (1 if row.family == "wgmma" else ROWS_A_KERNEL) == 0:
                bench = Bench(target)
            said = emits(bench, row)
            if said:
                missing[f"{row.ptx} {dict(row.axes)}"] = said
    return missing


@pytest.mark.parametrize("family", FAMILIES)
def test_every_opcode_has_a_call(family: str) -> None:
    assert sorted({row.opcode for row in rows_of(family)} - CALLS.keys()) == []


@pytest.mark.parametrize("family", FAMILIES)
def test_a_row_of_the_sample_is_emitted_by_its_call(family: str) -> None:
    assert without_a_call(sample(family)) == {}


@pytest.mark.exhaustive
@pytest.mark.parametrize("family", FAMILIES)
def test_every_row_is_emitted_by_its_call(family: str) -> None:
    assert without_a_call(list(rows_of(family))) == {}


def test_a_call_that_emits_another_row_is_seen() -> None:
    """The witness itself: the axes of a fence are not those of another."""
    first, second = [row for row in rows_of("sync") if row.ptx in ("fence.sc.cta", "fence.sc.gpu")]
    bench = Bench(newest_target(first))
    assert emits(bench, first) == ""
    vars(bench.k.fence)["thread"] = lambda *_: bench.k.fence.membar("gl")
    assert emits(bench, second) == "emitted membar.gl"
