"""The rounds of a loop in each thread, against Python's ranges."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from nvbackend.builder.value_tracking.known import Known
from nvbackend.builder.value_tracking.uniformity import _rounds
from nvbackend.intrinsics.row.semantics import Scope


@pytest.mark.parametrize("width", [8, 32, 64])
def test_each_thread_has_the_rounds_of_its_range(width: int) -> None:
    lowest, highest = -(1 << width - 1), (1 << width - 1) - 1
    ends = (lowest, -5, -1, 0, 1, 2, 7, highest)
    bounds = [*itertools.product(ends, ends, (-2, -1, 0, 1, 2, 3, highest))]
    tables = [np.array([[[number % (1 << width) for number in each]]], np.uint64) for each in zip(*bounds, strict=True)]
    found = _rounds([Known(table) for table in tables], width).numbers
    assert found is not None
    # A length may be more than Python's `len` gives
    expected = [max(0, -((start - end) // step)) if step > 0 else 0 for start, end, step in bounds]
    assert found[0, 0].tolist() == expected
    assert expected[bounds.index((-5, 7, 3))] == len(range(-5, 7, 3)) == 4


@pytest.mark.parametrize("unknown", range(3))
def test_nothing_is_known_where_one_of_the_three_is_not(unknown: int) -> None:
    number = Known(np.array([[[5]]], np.uint64))
    for apparent in (Scope.THREAD, Scope.CTA):
        bounds = [Known(apparent=apparent) if place == unknown else number for place in range(3)]
        found = _rounds(bounds, 32)
        assert (found.numbers, found.certain, found.apparent) == (None, Scope.THREAD, apparent)
