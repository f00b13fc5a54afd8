"""Member masks that leave the result undefined: of a lane that comes, of one that is read, or of two that differ."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nvbackend.ptx.syntax import Operand
from nvbackend.simulator.machine.compiling import Compiling
from nvbackend.simulator.machine.lanes import WARP, Lanes
from nvbackend.simulator.machine.wave import Wave
from nvbackend.simulator.sync.faults import opcode
from nvbackend.simulator.sync.rules import MEMBERS

Members = NDArray[np.uint32]
ALL = 0xFFFFFFFF
_BITS = np.uint32(1) << np.arange(WARP, dtype=np.uint32)


def names_all(place: Compiling, mask: Operand) -> bool:
    """Whether a mask is always that of all lanes."""
    number = place.constant(mask)
    return number is not None and number & ALL == ALL


def members_of(mask: Members) -> NDArray[np.bool_]:
    """The truth values of words: (..., 32)."""
    found: NDArray[np.bool_] = (mask[..., None] & _BITS) != 0
    return found


def check_members(place: Compiling, wave: Wave, lanes: Lanes, mask: Members) -> None:
    """Raise warp.members where a lane is not in its own `mask`, or one that it names has another mask."""
    if bool((mask == ALL).all()):
        return
    own = (lanes.threads % WARP).astype(np.int64)
    _refuse(place, wave, lanes, (mask >> own.astype(np.uint32) & 1) == 0, own, "executes it, and is not among", mask)
    others = _rows(lanes, mask)
    differs = members_of(mask) & _rows(lanes, np.ones(lanes.count, bool)) & (others != mask[:, None])
    wrong = differs.any(axis=1)
    if wrong.any():
        lane = int(np.flatnonzero(wrong)[0])
        other = int(differs[lane].argmax())
        problem = f"names the members {int(others[lane, other]):#x}, and is among"
        _refuse(place, wave, lanes, wrong, np.full(lanes.count, other), problem, mask)


def check_senders(place: Compiling, wave: Wave, lanes: Lanes, mask: Members, chosen: NDArray[np.int64]) -> None:
    """Raise warp.members where each of a mask's lanes reads a lane outside of it: at the end of a row some may."""
    if bool((mask == ALL).all()):
        return
    outside = (mask >> chosen.astype(np.uint32) & 1) == 0
    if not outside.any():
        return
    inside = members_of(mask) & _rows(lanes, ~outside)
    _refuse(place, wave, lanes, ~inside.any(axis=1), chosen, "is read from, and is not among", mask)


def _rows(lanes: Lanes, values: NDArray[Any]) -> NDArray[Any]:
    """For each lane, the values of its whole warp: (n, 32)."""
    return lanes.by_warp(values)[lanes.slots[0]]


def _refuse(
    place: Compiling, wave: Wave, lanes: Lanes, wrong: NDArray[np.bool_], about: Any, problem: str, mask: Members
) -> None:
    """Raise warp.members for the first wrong lane, about the lane that `about` has for it."""
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        thread = wave.thread_name(int(lanes.threads[at]))
        MEMBERS.fail(
            at=place.site.location, notes=((f"PTX {place.site}", None),), what=opcode(place.site.text), thread=thread,
            lane=int(about[at]), problem=problem, members=f"{int(mask[at]):#x}",
        )  # fmt: skip
