"""The registers of each CTA: what its warps hold, and what setmaxnreg takes and gives back. PTX ISA 9.7.19.

A launch gives each warp as many as ptxas may use: `.maxnreg`, else an even share of the register file. A warp that has
ended holds none.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics import Rule
from nvbackend.simulator.events import By, Mask, Threads
from nvbackend.simulator.machine.lanes import WARP
from nvbackend.simulator.machine.wave import Cause, Wave
from nvbackend.simulator.sync.faults import fail

REGISTER_FILE: Final = 65536
_MOST: Final = 256
_UNIT: Final = 8
_WARPGROUP: Final = 4
"""Its warps: those of an SM's quarters are of equal number."""

ORDER = Rule(
    id="setmaxnreg.order",
    message="{what} of {thread} to {count} registers, where the warp has {present}",
    fix="lower from more and raise from less: a count of at most {present}, or setmaxnreg.inc",
    why="The behaviour is undefined.",
    reference="PTX ISA 9.7.19.5 (setmaxnreg)",
)


class RegisterPool:
    """`wave.part(RegisterPool)`. Counts are registers a thread of a warp."""

    def __init__(self, wave: Wave) -> None:
        self._wave = wave
        launched = wave.launch.registers
        self._launched = -(-min(launched, _MOST) // _UNIT) * _UNIT
        self._held: NDArray[np.int64] = np.full(wave.size // WARP, self._launched)

    def lower(self, by: By, count: int) -> None:
        """Give back all but `count`. Raises setmaxnreg.order."""
        warps = np.unique(by.threads // WARP)
        less = np.flatnonzero(self._held[warps] < count)
        if len(less):
            lane = int(np.argmax(by.threads // WARP == warps[less[0]]))
            fail(ORDER, self._wave, by, lane, count=count, present=int(self._held[warps[less[0]]]))
        self._held[warps] = count

    def room(self, threads: Threads, count: int) -> Mask:
        """Which of the threads their CTA can give `count` registers, warp by warp."""
        warps = threads // WARP
        free = self._free()
        granted = np.zeros(len(self._held), bool)
        for warp in np.unique(warps).tolist():
            cta, needed = self._cta(warp), max(count - int(self._held[warp]), 0)
            granted[warp] = free[cta] >= needed
            free[cta] -= needed * granted[warp]
        mask: Mask = granted[warps]
        return mask

    def take(self, threads: Threads, count: int) -> None:
        """The threads' warps have `count` now, if they had less."""
        warps = np.unique(threads // WARP)
        self._held[warps] = np.maximum(self._held[warps], count)

    def _cta(self, warp: int) -> int:
        return warp * WARP // self._wave.cta_threads

    def _free(self) -> NDArray[np.int64]:
        """Of each CTA: registers a thread, for one warp."""
        alive = self._wave.alive.reshape(-1, WARP).any(axis=1)
        ctas = self._wave.cta_count
        total = self._launched * self._wave.exists.reshape(-1, WARP).any(axis=1).reshape(ctas, -1).sum(axis=1)
        found: NDArray[np.int64] = total - np.where(alive, self._held, 0).reshape(ctas, -1).sum(axis=1)
        return found

    def causes(self, threads: Threads, count: int) -> list[Cause]:
        """Why threads wait, for the report of a deadlock."""
        found, free = [], self._free()
        for cta in np.unique(self._wave.cta(threads)).tolist():
            mine = threads[self._wave.cta(threads) == cta]
            held = self._held.reshape(self._wave.cta_count, -1)[cta][::_WARPGROUP].tolist()
            wanted = sum(count - int(self._held[warp]) for warp in np.unique(mine // WARP).tolist()) * WARP
            text = (
                f"waits for registers: setmaxnreg.inc to {count} asks for {wanted} more, and the pool of the CTA has "
            )
            text += f"{int(free[cta]) * WARP}; its warpgroups hold {', '.join(map(str, held))} a thread"
            found.append(Cause(mine, text))
        return found


def share(threads: int, ctas: int = 1) -> int:
    """An even share of the register file: for each thread of so many CTAs on an SM, whose warps count in fours."""
    fours = -(-(-(-threads // WARP) * ctas) // _WARPGROUP)
    return REGISTER_FILE // (fours * WARP * _WARPGROUP) // _UNIT * _UNIT
