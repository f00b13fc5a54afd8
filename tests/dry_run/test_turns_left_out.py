"""Ping-pong consumers that hang: where one has left its turn out that is said, and else what holds the ring up."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from tests.dry_run.kernels.rings_in_turns import tiles_in_turns

WAITS = {
    "skips_a_turn": ("turn[1]", True),
    "first_has_no_tile": ("turn[1]", True),
    "tiles_without_release": ("empty[0]", False),
    "releases_in_the_next_turn": ("empty[0]", False),
}
"""By mistake the mbarrier whose wait is told, and whether its fix is to take the turn."""


@pytest.mark.parametrize("mistake", WAITS)
def test_the_wait_that_is_told_is_the_cause(mistake):
    with pytest.raises(nvb.DiagnosticError) as caught:
        tiles_in_turns.build(mistake=mistake)
    (only,) = caught.value.diagnostics
    barrier, of_turns = WAITS[mistake]
    assert only.rule_id == "mbarrier.deadlock"
    assert f" of {barrier}: " in only.message
    assert ("let the consumer before take its turn too" in only.fix) == of_turns


def test_the_fix_works():
    assert tiles_in_turns.build(mistake="empty_turns").diagnostics == ()
