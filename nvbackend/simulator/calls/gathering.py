"""Lanes of a warp that must come to an instruction together: `*.sync` with its member mask. PTX ISA 9.7.9.6."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from nvbackend.simulator.events import Bits
from nvbackend.simulator.machine.compiling import Compiling
from nvbackend.simulator.machine.lanes import WARP, Lanes
from nvbackend.simulator.machine.wave import Reader, Step, Waiting, Wave

Members = NDArray[np.uint32]
Together = Callable[[Wave, Lanes, Members], None]
"""What the lanes do once they are together: each has the mask of those that it names."""
_BITS = np.uint32(1) << np.arange(WARP, dtype=np.uint32)


def gathered(run: Together, members: Reader | None, place: Compiling) -> Step:
    """The step that holds lanes until all that their mask names are here; None: those that are here are enough."""

    def step(wave: Wave, lanes: Lanes) -> Waiting | None:
        if members is None:
            run(wave, lanes, present_bits(lanes)[lanes.slots[0]])
            return None
        mask = members(wave, lanes)
        missing = wave.missing(lanes, mask)
        if missing is None:
            wave.meet(place.by(lanes))
            run(wave, lanes, mask)
            return None
        if missing.count < lanes.count:
            rest = lanes.without(missing)
            wave.meet(place.by(rest))
            run(wave, rest, members(wave, rest))
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


def members_of(mask: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """The truth values of words: (..., 32)."""
    found: NDArray[np.bool_] = (mask[..., None] & _BITS) != 0
    return found


def rows_of(lanes: Lanes, values: Bits) -> Bits:
    """For each lane, the values of its whole warp: (n, 32)."""
    return lanes.by_warp(values)[lanes.slots[0]]
