"""What outlives a CTA: bulk stores that nobody waited for, and copies into the memory of a CTA that has ended."""

from __future__ import annotations

import numpy as np

from nvbackend.simulator.checks import rules
from nvbackend.simulator.checks.watching import Watching
from nvbackend.simulator.events import Access, By
from nvbackend.simulator.machine.wave import Wave
from nvbackend.simulator.sync.groups import BulkGroups


class Lifetimes(Watching):
    """The observer of one wave."""

    def __init__(self, wave: Wave) -> None:
        self._wave = wave

    def exited(self, by: By) -> None:
        """A thread that ends has waited until its bulk stores have read their sources."""
        for member, committed in self._wave.part(BulkGroups).in_flight(by.threads):
            reading = member.reading
            if reading is None or reading.done:
                continue
            thread = self._wave.thread_name(int(reading.threads[0]))
            rule = rules.NOT_WAITED if committed else rules.NOT_COMMITTED
            text = f"the {reading.engine} of PTX {reading.site}"
            rule.fail(at=reading.site.location, notes=((f"PTX {reading.site}", None),), thread=thread, operation=text)

    def access(self, access: Access) -> None:
        """Shared memory that is accessed belongs to a CTA that has a thread alive, unless it is the accessor's own."""
        if access.owners is None or access.space != "shared" or not len(access.addresses):
            return
        wave, by = self._wave, access.by
        if wave.alive_count == int(wave.exists.sum()):
            return
        ended = ~np.logical_or.reduce(wave.alive.reshape(wave.cta_count, -1), axis=1)
        wrong = np.flatnonzero(np.broadcast_to(ended[access.owners], access.addresses.shape))
        if not len(wrong):
            return
        cta = int(np.broadcast_to(access.owners, access.addresses.shape)[wrong[0]])
        thread = wave.thread_name(int(by.threads[0 if len(by.threads) == 1 else int(wrong[0])]))
        who = thread if by.operation is None else f"the {by.operation.engine} of {thread}"
        does = "reads" if access.kind == "read" else "writes"
        note = (f"PTX {by.site}", None)
        rules.ENDED_EARLY.fail(at=by.site.location, notes=(note,), operation=who, does=does, cta=cta)
