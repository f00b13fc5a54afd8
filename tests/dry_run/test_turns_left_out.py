"""Ping-pong consumers that hang: where one has left its turn out that is said, and else what holds the ring up."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from tests.dry_run.kernels.rings_in_turns import tiles_in_turns

TAKE = "let the consumer before take its turn too"
RELEASE = "let each consumer give back the last stage of a turn before its next turn"
WAITS = {
    "skips_a_turn": ("empty[2]", "warps 4 and 8 have ended after 8 steps, and warp 0 begins another"),
    "first_has_no_tile": ("turn[1]", TAKE),
    "tiles_without_release": ("empty[0]", "keeps the last stage of warps 4 and 8, and the wait of"),
    "releases_in_the_next_turn": ("empty[0]", RELEASE),
    "a_turn_a_step": ("empty[0]", RELEASE),
    "two_turns_a_tile": ("empty[0]", RELEASE),
}
"""For each mistake the mbarrier that the message names, and a part of its fix."""


@pytest.mark.parametrize("mistake", WAITS)
def test_the_wait_that_is_told_is_the_cause(mistake):
    with pytest.raises(nvb.DiagnosticError) as caught:
        tiles_in_turns.build(mistake=mistake)
    (only,) = caught.value.diagnostics
    barrier, fix = WAITS[mistake]
    assert only.rule_id == "mbarrier.deadlock"
    assert f" of {barrier}: " in only.message
    assert fix in only.fix


def test_the_fix_works():
    assert tiles_in_turns.build(mistake="empty_turns").diagnostics == ()
