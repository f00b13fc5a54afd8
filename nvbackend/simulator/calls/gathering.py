"""Lanes of a warp that must come to an instruction together: `*.sync` with its member mask. PTX ISA 9.7.9.6."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from nvbackend.simulator.events import Bits
from nvbackend.simulator.machine.compiling import Compiling
from nvbackend.simulator.machine.lanes import Lanes
from nvbackend.simulator.machine.wave import Reader, Step, Waiting, Wave
from nvbackend.simulator.sync.members import Members, check_members

Together = Callable[[Wave, Lanes, Members], None]
"""What the lanes do once they are together: each has the mask of those that it names."""


def gathered(run: Together, members: Reader | None, place: Compiling) -> Step:
    """The step that holds lanes until all that their mask names are here; None: those that are here are enough."""

    def step(wave: Wave, lanes: Lanes) -> Waiting | None:
        if members is None:
            run(wave, lanes, present_bits(lanes)[lanes.slots[0]])
            return None
        mask = members(wave, lanes)
        missing = wave.missing(lanes, mask)
        if missing is None:
            wave.meet(place.by(lanes, members=mask))
            check_members(place, wave, lanes, mask)
            run(wave, lanes, mask)
            return None
        if missing.count < lanes.count:
            rest = lanes.without(missing)
            mask = members(wave, rest)
            wave.meet(place.by(rest, members=mask))
            check_members(place, wave, rest, mask)
            run(wave, rest, mask)
        return Waiting(missing, lambda: False, lambda: _reason(wave, missing, members), again=True)

    return step


def _reason(wave: Wave, lanes: Lanes, members: Reader) -> str:
    mask = int(members(wave, lanes)[0])
    here = int(present_bits(lanes)[0])
    return f"lanes {here:#010x} of the warp are here, and the member mask is {mask:#010x}"


def present_bits(lanes: Lanes) -> NDArray[np.uint32]:
    """A bit for each lane that is here, of each warp."""
    return bits_of(lanes.present)


def bits_of(mask: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """(warps, 32) truth values as a word for each warp."""
    return np.packbits(mask, axis=1, bitorder="little").view(np.uint32)[:, 0]


def rows_of(lanes: Lanes, values: Bits) -> Bits:
    """For each lane, the values of its whole warp: (n, 32)."""
    return lanes.by_warp(values)[lanes.slots[0]]
