"""Ordinary accesses to the 8 bytes of an mbarrier."""

from __future__ import annotations

import numpy as np

from nvbackend.simulator.checks.watching import Watching
from nvbackend.simulator.events import Access
from nvbackend.simulator.machine.wave import Wave
from nvbackend.simulator.sync.faults import fail
from nvbackend.simulator.sync.mbarriers import Mbarriers
from nvbackend.simulator.sync.rules import MBARRIER_OVERWRITTEN


class BarrierBytes(Watching):
    """The observer of one wave."""

    def __init__(self, wave: Wave) -> None:
        self._wave = wave

    def access(self, access: Access) -> None:
        """Instructions on mbarriers do not count as accesses, so any access to an mbarrier is a mistake."""
        if access.space != "shared" or access.owners is None or not len(access.addresses):
            return
        barriers = self._wave.part(Mbarriers)
        words = barriers.words()
        if words is None:
            return
        addresses = access.addresses.astype(np.int64)
        first, last = addresses >> 3, (addresses + access.size - 1) >> 3
        hit = words[access.owners, first] | words[access.owners, last]
        for between in range(1, (access.size >> 3) - 1):
            hit = hit | words[access.owners, first + between]
        if hit.any():
            lane = int(np.flatnonzero(hit)[0])
            cta = int(np.broadcast_to(access.owners, addresses.shape)[lane])
            start, end = int(addresses[lane]), int(addresses[lane]) + access.size
            place, state = next(
                (place, state)
                for place, state in barriers
                if place[0] == cta and start < place[1] + 8 and place[1] < end
            )
            verb = "reads from" if access.kind == "read" else "writes to"
            name = barriers.name(place)
            fail(MBARRIER_OVERWRITTEN, self._wave, access.by, lane, place=name, state=state, verb=verb)
