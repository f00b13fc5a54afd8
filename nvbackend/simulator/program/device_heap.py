"""malloc and free of a kernel: memory that lives as long as the launch."""

from __future__ import annotations

import numpy as np

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.simulator.machine.lanes import Lanes
from nvbackend.simulator.machine.wave import Wave

_ALIGNMENT = 16


@dataclass(frozen=True, slots=True)
class Allocating:
    """A call of malloc: the slots of its argument, a count of bytes, and of its result, a generic address."""

    size: int
    result: int

    def run(self, wave: Wave, lanes: Lanes) -> None:
        """Each thread gets memory of its own, of zeros."""
        heap = wave.memory.heaps[0]
        sizes = np.ascontiguousarray(wave.registers[self.size][lanes.index][:, :8]).view(np.uint64)[:, 0]
        bases = [heap.add("malloc", np.zeros(max(one, 1), np.uint8), align=_ALIGNMENT).base for one in sizes.tolist()]
        values = wave.registers[self.result].copy()
        values[lanes.index, :8] = np.array(bases, np.uint64).view(np.uint8).reshape(-1, 8)
        wave.registers[self.result] = values


@dataclass(frozen=True, slots=True)
class Freeing:
    """A call of free, after which the memory stays: later uses are not reported."""

    def run(self, _wave: Wave, _lanes: Lanes) -> None:
        """Nothing."""
