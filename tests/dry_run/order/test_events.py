"""What the lanes of a warp have waited for, against a set of lanes for each event."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nvbackend.dry_run.order.events import Events, Warp

LANES = 0b1111
EVENTS = 12
FIRST = 8
"""The bit of the first event that a warp waits for: those below are its own."""
Waits = list[tuple[int, int]]

_waits = st.lists(st.tuples(st.integers(1, LANES), st.integers(0, (1 << EVENTS) - 1)), max_size=30)


def _warp() -> Warp:
    return Warp(0, 0, Events(1), lambda _warp: None, lanes=LANES)


@given(_waits)
def test_an_event_is_hidden_from_lanes_that_did_not_wait_for_it(waits: Waits) -> None:
    warp, heard = _warp(), [0] * EVENTS
    for lanes, events in waits:
        warp.learn((events << FIRST, 0), lanes)
        for event in range(EVENTS):
            if events >> event & 1:
                heard[event] |= lanes
        for some in range(1, LANES + 1):
            hidden = sum(1 << event for event in range(EVENTS) if heard[event] and some & ~heard[event])
            assert warp.hidden(some) == hidden << FIRST


def test_what_one_lane_waits_for_again_and_again_is_kept_once() -> None:
    warp = _warp()
    for event in range(1000):
        warp.learn((1 << FIRST + event, 0), 0b0001)
        warp.fence_proxy(0b0001)
    assert len(warp.heard_by) == 1
    assert len(warp.of_lanes) == 1
    assert warp.hidden(0b0010) == (1 << 1000) - 1 << FIRST
    warp.meet()
    assert warp.hidden(0b0010) == 0
