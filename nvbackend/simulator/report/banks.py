"""What an access of warps costs: passes over the banks of shared memory, sectors of global memory.

Shared memory has 32 banks of 4 bytes: word w is in bank w % 32. One pass (a wavefront) serves one word of each bank, to
all threads that ask for it. Of 8 bytes a thread a pass serves at most half a warp, of 16 bytes a quarter; a row of
ldmatrix and stmatrix counts as a thread's 16 bytes. Global memory comes in sectors of 32 bytes. CUDA C++ Programming
Guide, shared memory and global memory (compute capability 5.x and later).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nvbackend.simulator.machine.lanes import WARP

BANKS, BANK_BYTES = 32, 4
SECTOR_BYTES = 32
Numbers = NDArray[np.int64]


class Cost(NamedTuple):
    """Of the requests of several warps together: what they take, and the least that so many threads or bytes take."""

    requests: int
    taken: int
    least: int


def wavefronts(threads: Numbers, offsets: Numbers, size: int) -> Cost:
    """Passes over the banks, for an access of `size` bytes at the offset of each thread."""
    together = min(WARP, BANKS * BANK_BYTES // size)
    phase = threads // WARP * WARP + threads % WARP // together
    words = offsets[:, None] // BANK_BYTES + np.arange(max(size // BANK_BYTES, 1))
    wanted = np.unique((phase[:, None] << 32) + words)
    banks, words_of_a_bank = np.unique((wanted >> 32) * BANKS + wanted % BANKS, return_counts=True)
    phases, firsts = np.unique(banks // BANKS, return_index=True)
    taken = int(np.maximum.reduceat(words_of_a_bank, firsts).sum())
    return Cost(len(np.unique(phases // WARP)), taken, len(phases))


def sectors(threads: Numbers, addresses: Numbers, size: int) -> Cost:
    """Sectors that hold the bytes; the least is what as many different bytes need side by side."""
    warps, number = np.unique(threads // WARP, return_inverse=True)
    first = int(addresses.min()) // SECTOR_BYTES
    touched = [(addresses + within) // SECTOR_BYTES - first for within in range(0, size, SECTOR_BYTES)]
    taken = len(np.unique(_keys(np.tile(number, len(touched)), np.concatenate(touched))))
    starts = addresses - first * SECTOR_BYTES
    different = np.unique(_keys(number, starts))
    of_a_warp = np.bincount(different // (int(starts.max()) + 1)) * size
    return Cost(len(warps), taken, int((-(-of_a_warp // SECTOR_BYTES)).sum()))


def _keys(warps: Numbers, values: Numbers) -> Numbers:
    """A number for each pair."""
    return warps * (int(values.max()) + 1) + values
