"""Runs a wave: groups of threads at one place each, those at the lowest place first, until all have ended.

Threads that are apart meet where one group comes to the place of another one. A group that waits lets others run; when
none can run, an operation in flight is completed; when there is none, the launch is stuck.
"""

from __future__ import annotations

import random
from types import TracebackType
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.simulator.events import By, Pending, Site, Threads
from nvbackend.simulator.machine.lanes import Lanes
from nvbackend.simulator.machine.unwritten import Unwritten
from nvbackend.simulator.machine.wave import Cause, Waiting, Wave
from nvbackend.simulator.program import livelock, stuck
from nvbackend.simulator.program.blocks import Code, Program

PATIENCE = 256
"""How often threads may jump back to a place before those elsewhere have their turn."""
TRIES = 8
"""How often waits of a limited time end one after the other, when nothing else goes on, before this is a deadlock."""
_TOGETHER, _INTERRUPTIONS = 0.5, 0.1
"""With a seed: how likely a warp runs with the others of its group, and that a group is interrupted after a block."""


@dataclass(slots=True)
class _Waiter:
    """Threads that wait, and the place where they go on."""

    waiting: Waiting
    place: int


class Scheduler:
    """Runs one wave of a program."""

    def __init__(self, program: Program, wave: Wave) -> None:
        self._program = program
        self._wave = wave
        self._blocks, self._inside = program.tables()
        self._runnable: dict[int, list[Threads]] = {}
        self._tired: dict[int, list[Threads]] = {}
        """Groups that have jumped back often: they run again when the others have run."""
        self._waiters: list[_Waiter] = []
        self._gathering: dict[int, tuple[Lanes, Waiting, int]] = {}
        """Threads that wait at an instruction for others to come there, with the number of threads alive then."""
        self._tries = 0
        self._random = random.Random(wave.launch.seed) if wave.launch.seed else None
        self._jumps: dict[int, int] = {}
        """How often threads have jumped back to each place since all had their turn."""
        self._unwritten = Unwritten(wave, program.uses, program.unset())
        self._rounds = livelock.Rounds(wave, program.deciding)
        self._completed = 0
        """Operations in flight that have completed."""
        self.runs: dict[int, int] = {}
        """How many threads have run each block, by its first place."""

    def run(self) -> None:
        """Run until every thread has ended. What is in flight then is completed.

        Raises simulator.deadlock, simulator.livelock, simulator.limit.
        """
        self.begin()
        while self.go_on():
            while self._runnable:
                self._turn()

    def begin(self) -> None:
        """All threads are at the entry."""
        self._add(self._program.entry, np.flatnonzero(self._wave.exists))

    def go_on(self) -> bool:
        """Make sure that there are threads that can run; False when all have ended. Raises what `run` does."""
        while not self._runnable:
            if self._wake() or self._complete():
                continue
            if self._tired:
                self._try_again()
            elif not self._waiters and not self._gathering:
                return False
            elif not self._give_up():
                self._stuck()
        return True

    def _add(self, place: int, threads: Threads) -> None:
        self._runnable.setdefault(place, []).append(threads)

    def _turn(self) -> None:
        """The group at the lowest place runs until it waits, ends, or comes to where others are."""
        place = min(self._runnable) if self._random is None else self._random.choice(sorted(self._runnable))
        lanes = self._lanes(self._runnable.pop(place))
        if self._random is not None:
            lanes = self._some(place, lanes, self._random)
        while True:
            others = min(self._runnable, default=None)
            following = self._block(place, lanes)
            if following is None:
                return
            if following <= place and self._tires(following):
                self._tired.setdefault(following, []).append(lanes.threads)
                return
            if (others is not None and following >= others) or self._interrupted():
                self._add(following, lanes.threads)
                return
            place = following

    def _some(self, place: int, lanes: Lanes, chance: random.Random) -> Lanes:
        """All of the threads, or those of some warps; the others have their turn later."""
        if len(lanes.warps) == 1 or chance.random() < _TOGETHER:
            return lanes
        chosen = np.array([chance.random() < _TOGETHER for _ in lanes.warps])[lanes.slots[0]]
        if chosen.all() or not chosen.any():
            return lanes
        self._add(place, lanes.threads[~chosen])
        return Lanes(lanes.threads[chosen])

    def _interrupted(self) -> bool:
        """Whether others have their turn now: never, unless a seed asks for another order."""
        if self._random is None or self._random.random() > _INTERRUPTIONS:
            return False
        self._complete()
        self._wake()
        return True

    def _tires(self, place: int) -> bool:
        """Whether threads that jump back to a place let the others have their turn first: all do past the limit."""
        jumps = self._jumps[place] = self._jumps.get(place, 0) + 1
        return jumps > PATIENCE or self._wave.steps > self._wave.launch.limit

    def _try_again(self) -> None:
        """Those that have jumped back often run again, unless it is certain that they always will."""
        groups = [(place, np.sort(np.concatenate(parts))) for place, parts in sorted(self._tired.items())]
        if self._rounds.repeats(groups, self._completed, self.runs, self._program.codes) and not self._give_up():
            self._livelock(groups)
        self._again()

    def _again(self) -> None:
        """Those that have jumped back often can run. A launch without an end comes here again and again."""
        if self._wave.steps > self._wave.launch.limit:
            self._exceeded()
        for place, parts in self._tired.items():
            for part in parts:
                self._add(place, part)
        self._tired, self._jumps = {}, {}

    def _lanes(self, parts: list[Threads]) -> Lanes:
        wave = self._wave
        threads = parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))
        count = len(threads)
        return Lanes(threads, whole=count == wave.alive_count, full=count == wave.size)

    def _block(self, place: int, lanes: Lanes) -> int | None:
        """Run from a place to the end of its block; the place where all of the threads go on, if there is one."""
        wave, code = self._wave, self._blocks[place]
        first = self._inside[place]
        steps = code.steps[first:] if first else code.steps
        wave.steps += len(steps) + 1
        if not first:
            self.runs[place] = self.runs.get(place, 0) + lanes.count
        unwritten, followed = self._unwritten, self._unwritten.places(code.start)
        for done, step in enumerate(steps):
            if unwritten.slots and (first + done in followed or unwritten.is_everywhere):
                unwritten.step(code.sites[first + done], lanes)
            waiting = step(wave, lanes)
            if waiting is not None:
                self._wait(code, code.start + first + done, lanes, waiting)
                return None
        return self._leave(code, lanes)

    def _leave(self, code: Code, lanes: Lanes) -> int | None:
        """The end of a block; the place where all of the threads go on, if there is one."""
        self._follow(code, len(code.sites), lanes)
        going = code.end.go(self._wave, lanes)
        if type(going) is int:
            return going
        assert isinstance(going, list)
        for target, threads in going:
            if target <= code.start and self._tires(target):
                self._tired.setdefault(target, []).append(threads.threads)
            else:
                self._add(target, threads.threads)
        return None

    def _follow(self, code: Code, number: int, lanes: Lanes) -> None:
        """Follow what nothing wrote through an instruction of a block, where that is necessary."""
        unwritten = self._unwritten
        if unwritten.slots and (number in unwritten.places(code.start) or unwritten.is_everywhere):
            unwritten.step(code.sites[number] if number < len(code.sites) else code.end_site, lanes)

    def _wait(self, code: Code, place: int, lanes: Lanes, waiting: Waiting) -> None:
        """Some of the threads wait at an instruction; the others go on after it."""
        stopped = waiting.lanes
        if stopped.count < lanes.count:
            here = np.isin(lanes.threads, stopped.threads, assume_unique=True)
            self._add(place + 1, lanes.threads[~here])
        for observer in self._wave.observers:
            observer.waited(By(code.sites[place - code.start], stopped.threads), waiting.reason())
        if not waiting.again:
            self._waiters.append(_Waiter(waiting, place + 1))
            return
        before = self._gathering.pop(place, None)
        if before is None:
            self._gathering[place] = (stopped, waiting, self._wave.alive_count)
        else:
            threads = np.sort(np.concatenate([before[0].threads, stopped.threads]))
            self._add(place, threads)

    def _wake(self) -> bool:
        """Let those go on that can now; whether there are any."""
        found = False
        kept: list[_Waiter] = []
        for waiter in self._waiters:
            lanes = waiter.waiting.lanes
            ready = waiter.waiting.ready()
            if ready is True or (ready is not False and np.all(ready)):
                self._add(waiter.place, lanes.threads)
            elif ready is False or not np.any(ready):
                kept.append(waiter)
                continue
            else:
                mask: NDArray[np.bool_] = np.asarray(ready)
                self._add(waiter.place, lanes.threads[mask])
                waiter.waiting.lanes = Lanes(lanes.threads[~mask])
                kept.append(waiter)
            found = True
        self._waiters = kept
        for place, (lanes, waiting, alive) in list(self._gathering.items()):
            if alive != self._wave.alive_count or np.any(waiting.ready()):
                del self._gathering[place]
                self._add(place, lanes.threads)
                found = True
        if found:
            self._tries = 0
        if found and self._tired:
            self._again()
        return found

    def _complete(self) -> bool:
        """Complete the oldest operation of each CTA that may complete; whether there was one."""
        wave = self._wave
        ready = [one for one in wave.pending if all(other.done for other in one.after) and one.ready()]
        if self._random is not None:
            chosen = self._random.sample(ready, min(1, len(ready)))
        else:
            seen: set[int] = set()
            chosen = []
            for one in ready:
                cta = int(one.threads[0]) // wave.cta_threads
                if cta not in seen:
                    seen.add(cta)
                    chosen.append(one)
        for one in chosen:
            self._finish(one)
            self._tries = 0
        return bool(chosen)

    def _give_up(self) -> bool:
        """Let those go on whose wait may end early; False where they did so `TRIES` times and nothing came of it."""
        hasty = [waiter for waiter in self._waiters if waiter.waiting.give_up is not None]
        self._tries += 1
        if not hasty or self._tries > TRIES:
            return False
        for waiter in hasty:
            assert waiter.waiting.give_up is not None
            waiter.waiting.give_up()
            self._add(waiter.place, waiter.waiting.lanes.threads)
        self._waiters = [waiter for waiter in self._waiters if waiter.waiting.give_up is None]
        return True

    def _finish(self, operation: Pending) -> None:
        self._completed += 1
        self._wave.pending.remove(operation)
        operation.complete()
        operation.done = True
        for observer in self._wave.observers:
            observer.completed(operation)
        operation.after = ()  # each would keep all before it

    def _stuck(self) -> NoReturn:
        """Raise simulator.deadlock, with what each thread waits for."""
        stuck.fail(self._wave, self._waits())

    def _waits(self) -> list[tuple[Site, Cause]]:
        """Where threads wait, and for what."""
        waits = [(one.place - 1, cause) for one in self._waiters for cause in stuck.causes_of(one.waiting)]
        for place, (_, waiting, _alive) in self._gathering.items():
            waits += [(place, cause) for cause in stuck.causes_of(waiting)]
        return [(self._site(place), cause) for place, cause in waits]

    def _livelock(self, groups: livelock.Groups) -> NoReturn:
        """Raise simulator.livelock, with what the threads read in one more round."""
        reads = livelock.Reads(self._wave, self._program.deciding().going.reads)
        self._wave.observers.append(reads)
        self._again()
        while self._runnable:
            self._turn()
        stores = livelock.writers(self._program.codes, self.runs, reads)
        livelock.fail(self._wave, groups, self._waits(), self._site, reads, stores)

    def _exceeded(self) -> NoReturn:
        """Raise simulator.limit, with the place of each thread."""
        places = sorted([*self._tired.items(), *self._runnable.items()])
        here = [(self._site(place), Cause(np.sort(np.concatenate(parts)), "runs")) for place, parts in places]
        livelock.exceeded(self._wave, here + self._waits())

    def next_site(self, place: int | None) -> Site | None:
        """The instruction at a place, or, where no group is on its way, at the lowest place where threads are."""
        if place is None:
            waiting = (one.place - 1 for one in self._waiters)
            place = min([*self._runnable, *self._tired, *self._gathering, *waiting], default=None)
        return None if place is None else self._site(place)

    def _site(self, place: int) -> Site:
        code, inside = self._blocks[place], self._inside[place]
        return code.sites[inside] if inside < len(code.sites) else code.end_site


def running_site(traceback: TracebackType | None) -> Site | None:
    """The instruction that an exception came from. Nothing is written down while a block runs: its frame knows.

    Between two blocks it is the instruction where the next group of threads goes on.
    """
    site = None
    while traceback is not None:
        frame = traceback.tb_frame
        if frame.f_code is Scheduler._block.__code__ and "code" in frame.f_locals:
            code: Code = frame.f_locals["code"]
            place = frame.f_locals.get("first", 0) + frame.f_locals.get("done", 0)
            return code.sites[place] if place < len(code.sites) else code.end_site
        if isinstance(frame.f_locals.get("self"), Scheduler):
            site = frame.f_locals["self"].next_site(frame.f_locals.get("place")) or site
        traceback = traceback.tb_next
    return site
