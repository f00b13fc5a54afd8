"""Whole warps and warpgroups: `.sync.aligned` instructions run when all of their threads have come."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import numpy as np

from nvbackend.simulator.events import Bits, Threads
from nvbackend.simulator.machine.compiling import Compiling
from nvbackend.simulator.machine.lanes import WARP, WARPGROUP, Lanes
from nvbackend.simulator.machine.wave import Step, Waiting, Wave

Act = Callable[[Wave, Lanes], None]


def chip(place: Compiling) -> int:
    """90 of sm_90a."""
    found = re.search(r"\d+", place.target)
    return int(found[0]) if found else 0


def warps(place: Compiling, act: Act) -> Step:
    """A step that runs `act` for the warps that are here with all of their threads, and holds the others."""
    return _gathered(place, act, lambda wave, lanes: wave.missing(lanes), "warp")


def warpgroups(place: Compiling, act: Act) -> Step:
    """A step that runs `act` for whole warpgroups, 128 threads that follow one another."""
    return _gathered(place, act, _without_warpgroup, "warpgroup")


def _gathered(place: Compiling, act: Act, missing: Callable[[Wave, Lanes], Lanes | None], what: str) -> Step:
    text = place.instruction.opcode

    def step(wave: Wave, lanes: Lanes) -> Waiting | None:
        absent = missing(wave, lanes)
        if absent is None:
            wave.meet(place.by(lanes))
            act(wave, lanes)
            return None
        if absent.count < lanes.count:
            rest = Lanes(np.setdiff1d(lanes.threads, absent.threads, assume_unique=True))
            wave.meet(place.by(rest))
            act(wave, rest)
        return Waiting(absent, lambda: False, partial(_reason, absent, text, what), again=True)

    return step


def _reason(lanes: Lanes, text: str, what: str) -> str:
    return f"{text}, which a whole {what} executes together: {lanes.count} threads are here"


def _without_warpgroup(wave: Wave, lanes: Lanes) -> Lanes | None:
    groups, counts = np.unique(wave.warpgroup(lanes.threads), return_counts=True)
    if (counts == WARPGROUP).all():
        return None
    whole = groups[counts == WARPGROUP]
    return lanes.where(~np.isin(wave.warpgroup(lanes.threads), whole))


def spread(lanes: Lanes, values: Bits) -> Bits:
    """(.., 32 warps) of an array with one element a lane in its last axis; zero where a lane has ended."""
    if lanes.full_warps:
        return values
    whole = np.zeros((*values.shape[:-1], len(lanes.warps) * WARP), values.dtype)
    whole[..., _places(lanes)] = values
    return whole


def gathered(lanes: Lanes, values: Bits) -> Bits:
    """`spread` undone."""
    return values if lanes.full_warps else values[..., _places(lanes)]


def _places(lanes: Lanes) -> Threads:
    warp, lane = lanes.slots
    return warp * WARP + lane
