"""How many rounds loops make in threads of several kinds, and which of them deal their rounds to warps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from nvbackend.dry_run.protocols.overruns import _dealt_to
from nvbackend.dry_run.scenario.choose import special_of
from nvbackend.dry_run.scenario.loop_code import Counted, LoopCode
from nvbackend.dry_run.scenario.rounds import Made, Rounds
from nvbackend.dry_run.seam import Launch
from nvbackend.dry_run.values.unknown import UNKNOWN
from nvbackend.isel.target.target import Target
from nvbackend.signature import LaunchBounds

START, BOUND, STEP, OTHER = 1, 2, 3, 4
"""Registers: where a loop starts, its bound and its step, and where another loop starts."""
WARPS = [(0, 31), (32, 63)]
BY_WARP = {0: 0, 31: 0, 32: 1, 63: 1}


def made(*starts: int, of_thread: dict[int, Any] | None = None, other: int = 0, bound: int, step: int = 2) -> Made:
    """What is made of a loop for each of these registers of starts; `of_thread` gives START by the thread."""
    loops = [Counted(f"loop {slot}", slot, BOUND, STEP, 32, True, False, False) for slot in starts]
    code = SimpleNamespace(
        used={},
        assumptions=[],
        threads={"loop 1": WARPS} if of_thread else {},
        of_thread={"loop 1": [START]} if of_thread else {},
        registers=[None, 0, bound, step, other],
        special={START: "place"} if of_thread else {},
        fixed=[],
        parameters={},
        operations=[],
        loops=loops,
    )
    rounds = Rounds(
        cast(LoopCode, code), lambda thread: {"cluster_nctarank": 1, "place": (of_thread or {}).get(thread, UNKNOWN)}
    )
    found = rounds.of({})
    assert rounds.dealt == found.dealt
    return found


def test_a_loop_whose_warps_start_elsewhere_deals_its_rounds() -> None:
    found = made(START, of_thread=BY_WARP, bound=3)
    assert (found.rounds, found.dealt, found.even) == ({"loop 1": 2}, {"loop 1": 2}, frozenset())
    found = made(START, of_thread=BY_WARP, bound=4)
    assert (found.rounds, found.dealt, found.even) == ({"loop 1": 2}, {"loop 1": 2}, frozenset({"loop 1"}))


def test_a_loop_whose_lanes_start_elsewhere_is_that_of_the_first_thread() -> None:
    found = made(START, of_thread={0: 0, 31: 31, 32: 1, 63: 63}, bound=4)
    assert (found.rounds, found.dealt) == ({"loop 1": 2}, {})


def test_a_loop_that_is_unknown_in_some_warp_is_left_out() -> None:
    assert made(START, of_thread={0: 0, 31: 0, 32: UNKNOWN, 63: UNKNOWN}, bound=4).rounds == {}


def test_the_last_step_is_that_of_the_warp_with_the_most_rounds() -> None:
    """Its last step is one of the first warp's alone."""
    assert made(START, of_thread={0: 1, 31: 1, 32: 0, 63: 0}, bound=3).whole == {"loop 1"}


def test_loops_of_two_warps_that_go_on_alike_are_of_one_deal() -> None:
    found = made(START, OTHER, other=1, bound=5)
    assert (found.rounds, found.dealt) == ({"loop 1": 3, "loop 4": 3}, {"loop 1": 2, "loop 4": 2})


def test_a_loop_that_starts_a_step_later_is_of_no_deal() -> None:
    found = made(START, OTHER, other=2, bound=6)
    assert (found.rounds, found.dealt) == ({"loop 1": 3, "loop 4": 2}, {})


def test_steps_are_dealt_where_each_has_some_of_its_own() -> None:
    """By warps or by warpgroups, whose warps have the same ones."""
    assert _dealt_to({(0, 4): 4, (0, 5): 4, (0, 8): 4}, 8) == 2
    assert _dealt_to({(0, 1): 3, (0, 2): 5}, 8) == 2
    assert _dealt_to({(0, 4): 8, (0, 8): 0}, 8) == 0
    assert _dealt_to({(0, 4): 1, (0, 5): 5, (0, 8): 3}, 8) == 0


def test_places_of_a_thread_of_several_dimensions() -> None:
    launch = Launch(Target.parse("sm_90a"), 96, 1, 1, range(0), bounds=LaunchBounds(96, shape=(8, 4, 3)))
    special = special_of(launch, 0, 45)
    assert [special[name] for name in ("tid.x", "tid.y", "tid.z", "laneid", "warpid")] == [5, 1, 1, 13, 1]
