"""What warps did before they ended: a barrier that does not wait for them any more comes after it."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from nvbackend.simulator.events import By, Sync
from nvbackend.simulator.machine.lanes import WARP
from nvbackend.simulator.machine.wave import Wave

END = "end"
"""The last part of the token of a warp's end."""


class EndedWarps:
    """`wave.part(EndedWarps)`: the ends of warps, for barriers that count the threads that are left."""

    def __init__(self, wave: Wave) -> None:
        self._wave = wave

    def end(self, by: By) -> None:
        """Threads end."""
        warps = by.threads // WARP
        for warp in np.unique(warps).tolist() if self._wave.observers else ():
            self._tell("release", By(by.site, by.threads[warps == warp]), warp)

    def among(self, threads: slice) -> NDArray[np.int64]:
        """The warps of a range of threads of which no thread is left."""
        left = self._wave.alive[threads].reshape(-1, WARP).any(axis=1)
        ended: NDArray[np.int64] = threads.start // WARP + np.flatnonzero(np.logical_not(left))
        return ended

    def follow(self, by: By, warps: NDArray[np.int64]) -> None:
        """Threads come after the ends of warps."""
        for warp in warps.tolist() if self._wave.observers else ():
            self._tell("acquire", by, warp)

    def _tell(self, method: Literal["release", "acquire"], by: By, warp: int) -> None:
        for observer in self._wave.observers:
            getattr(observer, method)(Sync(by, ("barrier", warp, END)))
