"""What the samples call equal to NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import u32
from samples.program import compare, largest_error


@pytest.mark.parametrize(
    ("result", "expected", "kind"),
    [(0, 2**32 - 1, np.uint32), (2**32 - 2, 2**32 - 1, np.uint32), (-1, 127, np.int8), (-(2**31), 0, np.int32)],
)
def test_integers_are_equal_or_wrong(result: int, expected: int, kind: type) -> None:
    """Their difference in their own type is 1, or a negative number."""
    assert largest_error(np.array([result], kind), np.array([expected], kind)) == np.inf
    assert largest_error(np.array([expected], kind), np.array([expected], kind)) == 0


def test_floats_differ_by_a_part_of_the_largest() -> None:
    assert largest_error(np.array([1.0, 4.5]), np.array([1, 4])) == 0.125


@nvb.kernel("sm_90", threads=32)
def empty(k: nvb.KernelBuilder, out: nvb.Pointer[u32]) -> None:
    out[k.thread_id()] = 0


def test_a_flag_that_is_not_set_is_seen() -> None:
    with pytest.raises(AssertionError, match="empty DIFFERS from NumPy"):
        compare(empty, 1, ..., expected=np.full(32, 2**32 - 1, np.uint32))
