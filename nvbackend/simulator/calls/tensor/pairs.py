"""The CTA, or the pair of CTAs, that a tcgen05 instruction works on, and its place among those in flight."""

from __future__ import annotations

import numpy as np

from nvbackend.simulator.calls.tensor.tmem import TensorMemory
from nvbackend.simulator.events import Addresses, Pending, Threads
from nvbackend.simulator.machine.wave import Wave
from nvbackend.simulator.memory import windows


def ctas_of(wave: Wave, threads: Threads, count: int) -> list[int]:
    """The CTA of the thread, or the pair that it is in, the even rank first."""
    cta = int(wave.cta(threads[:1])[0])
    if count == 1:
        return [cta]
    even = cta - int(wave.rank(threads[:1])[0]) % 2
    return [even, even + 1]


def shared_addresses(wave: Wave, cta: int, offsets: Addresses) -> Addresses:
    """Offsets in the shared memory of a CTA as addresses in the window of its cluster."""
    return offsets | np.uint64(cta % wave.cluster_size << windows.RANK_SHIFT)


def start(wave: Wave, count: int, operation: Pending) -> None:
    """Put an mma, cp or shift in flight: those of a CTA, or of a pair, complete in order."""
    last = wave.part(TensorMemory).last
    ctas = ctas_of(wave, operation.threads, count)
    before = (last[cta] for cta in ctas if cta in last)
    operation.after = tuple(dict.fromkeys(before))
    last.update(dict.fromkeys(ctas, operation))
    wave.start(operation)
