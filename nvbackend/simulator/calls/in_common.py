"""Operands that all threads of a warp or a warpgroup give alike."""

from __future__ import annotations

import numpy as np

from nvbackend.simulator.events import Bits
from nvbackend.simulator.machine.compiling import Compiling
from nvbackend.simulator.machine.lanes import WARP, WARPGROUP, Lanes
from nvbackend.simulator.machine.wave import Wave
from nvbackend.simulator.sync.faults import fail
from nvbackend.simulator.sync.rules import NOT_IN_COMMON

_GROUPS = {WARP: "warp", WARPGROUP: "warpgroup"}


def in_common(place: Compiling, wave: Wave, lanes: Lanes, values: Bits, operand: str, size: int = WARP) -> Bits:
    """The values, one a lane, which are the same in each `size` threads. Raises convergence.operand."""
    groups = lanes.threads // size
    firsts = np.searchsorted(groups, groups)
    apart = values != values[firsts]
    if apart.any():
        lane = int(np.flatnonzero(apart)[0])
        first = int(firsts[lane])
        fail(
            *(NOT_IN_COMMON, wave, place.by(lanes), lane),
            operand=operand, group=_GROUPS[size], value=int(values[lane]), other=int(values[first]),
            first=wave.thread_name(int(lanes.threads[first])),
        )  # fmt: skip
    return values
