"""What orders the lanes of a warp, in a dry run."""

from __future__ import annotations

import pytest

from tests.dry_run.refusals import refusals
from tests.support.lanes_apart import CASES, Case


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_lanes_that_nothing_orders_are_refused_and_no_others(case: Case) -> None:
    assert refusals(case.kernel, **case.constants) == ([] if case.is_right else ["dry-run.missing-warp-sync"])
