"""Threads that are held at an instruction until a condition of their own holds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nvbackend.simulator.events import Mask
from nvbackend.simulator.machine.lanes import Lanes
from nvbackend.simulator.machine.wave import Cause, Waiting


def held(
    lanes: Lanes,
    passed: Callable[[Lanes], Mask],
    leave: Callable[[Lanes], None],
    reason: Callable[[Lanes], str],
    give_up: Callable[[Lanes], None] | None = None,
    causes: Callable[[Lanes], list[Cause]] | None = None,
) -> Waiting | None:
    """Let those of the lanes go on for which `passed` holds, and hold the others until it does.

    `leave` is called with lanes that go on, now or later; `give_up` with lanes that go on without, where they may.
    `reason` and `causes` are for the report of a deadlock.
    """
    rest = _released(lanes, passed, leave)
    if not rest.count:
        return None

    def ready() -> Mask:
        done = passed(waiting.lanes)
        if done.any():
            leave(waiting.lanes.where(done))
        return done

    waiting = Waiting(rest, ready, lambda: reason(waiting.lanes))
    if give_up is not None:
        waiting.give_up = lambda: give_up(waiting.lanes)
    if causes is not None:
        waiting.causes = lambda: causes(waiting.lanes)
    return waiting


def _released(lanes: Lanes, passed: Callable[[Lanes], Mask], leave: Callable[[Lanes], None]) -> Lanes:
    done = passed(lanes)
    if not done.any():
        return lanes
    leave(lanes.where(done))
    return Lanes(lanes.threads[~np.asarray(done)])
