"""Runs a wave one instruction at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nvbackend.simulator.events import Site, Threads
from nvbackend.simulator.machine.lanes import Lanes
from nvbackend.simulator.machine.wave import Cause
from nvbackend.simulator.program import stuck
from nvbackend.simulator.program.scheduler import Scheduler


class SingleSteps(Scheduler):
    """A scheduler whose turn is one instruction: of the threads at the lowest place, as without a seed."""

    @property
    def site(self) -> Site:
        """The instruction that comes next."""
        return self._site(min(self._runnable))

    @property
    def threads(self) -> Threads:
        """The threads that execute it."""
        return np.sort(np.concatenate(self._runnable[min(self._runnable)]))

    def causes(self) -> Iterator[tuple[Site, Cause]]:
        """What those who cannot go on wait for."""
        for waiter in self._waiters:
            yield from ((self._site(waiter.place - 1), cause) for cause in stuck.causes_of(waiter.waiting))
        for place, (_, waiting, _alive) in self._gathering.items():
            yield from ((self._site(place), cause) for cause in stuck.causes_of(waiting))

    def step(self) -> None:
        """Execute it. `go_on` says whether there is a next one."""
        place = min(self._runnable)
        lanes = self._lanes(self._runnable.pop(place))
        following = self._one(place, lanes)
        if following is None:
            return
        if following <= place and self._tires(following):
            self._tired.setdefault(following, []).append(lanes.threads)
        else:
            self._add(following, lanes.threads)

    def _one(self, place: int, lanes: Lanes) -> int | None:
        """The place where all of the threads go on, if there is one."""
        wave, code, inside = self._wave, self._blocks[place], self._inside[place]
        wave.steps += 1
        if not inside:
            self.runs[code.start] = self.runs.get(code.start, 0) + lanes.count
        if inside < len(code.steps):
            self._follow(code, inside, lanes)
            waiting = code.steps[inside](wave, lanes)
            if waiting is None:
                return place + 1
            self._wait(code, place, lanes, waiting)
            return None
        return self._leave(code, lanes)
