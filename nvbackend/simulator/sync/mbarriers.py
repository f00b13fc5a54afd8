"""The mbarriers of a wave: which bytes of shared memory hold one, and what threads and engines do to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from nvbackend.simulator.events import By, Mask, Site, Sync, Threads
from nvbackend.simulator.machine.wave import Cause, Wave
from nvbackend.simulator.sync import rules
from nvbackend.simulator.sync.faults import fail, opcode
from nvbackend.simulator.sync.mbarrier import MBARRIER_BYTES, Mbarrier, MbarrierFault, made, phase_of

Places = tuple[NDArray[np.int64], NDArray[np.int64]]
"""The CTA in the wave and the offset in its shared memory, of each thread's mbarrier."""
_RULES = {
    "arrivals": rules.MBARRIER_ARRIVALS,
    "count": rules.MBARRIER_COUNT,
    "expect-tx": rules.MBARRIER_EXPECT_TX,
}
_COMES_BACK = 4
"""How often a try_wait comes back at once, in a launch where it may."""
MADE = "mbarrier made"
"""The first part of the token with which a new mbarrier is announced."""


def token(cta: int, offset: int, phase: int) -> tuple[str, int, int, int]:
    """What orders the arrivals of a phase before the waits for it."""
    return "mbarrier", cta, offset, phase


class Mbarriers:
    """`wave.part(Mbarriers)`. Threads of one step act in their order.

    `by` has a thread for each place, or one for all of them.
    """

    def __init__(self, wave: Wave) -> None:
        self._wave = wave
        self._objects: dict[tuple[int, int], Mbarrier] = {}
        self._words = np.zeros((wave.cta_count, (wave.memory.shared.shape.size >> 3) + 2), bool)
        self._ended: set[tuple[int, int]] = set()
        self._made: dict[tuple[int, int], Site] = {}
        self._last: dict[tuple[int, int], By] = {}
        """Where each object was initialised, and who arrived there last or brought bytes."""
        self._waits: NDArray[np.int64] = np.full(wave.size, -1, np.int64)
        """The place that each thread waits at, as CTA times 2^32 plus offset."""
        self.has_relaxed = False
        """Whether an arrival published nothing, or a wait saw nothing: then the clocks do not say what came before."""
        self._came_back: Counter[tuple[int, int]] = Counter()

    def __iter__(self) -> Iterator[tuple[tuple[int, int], Mbarrier]]:
        """Every mbarrier with its CTA and offset."""
        return iter(sorted(self._objects.items()))

    def comes_back(self, site: Site, threads: Threads) -> bool:
        """Whether a try_wait of these threads comes back at once, whatever the phase: its first few times."""
        first = site.line, int(threads[0])
        self._came_back[first] += 1
        return self._came_back[first] <= _COMES_BACK

    def init(self, by: By, places: Places, counts: NDArray[Any]) -> None:
        """Make an object at each place. Raises mbarrier.double-init, mbarrier.count, mbarrier.address."""
        for lane, (place, count) in enumerate(zip(_each(places), counts.tolist(), strict=True)):
            if place[1] % MBARRIER_BYTES:
                self._fail(rules.MBARRIER_ADDRESS, by, lane, place)
            known = self._objects.get(place)
            if known is not None:
                self._fail(rules.MBARRIER_DOUBLE_INIT, by, lane, place, state=known)
            try:
                self._objects[place] = made(count)
                self._made[place] = by.site
                self._announce(by, lane, place)
                self._last.pop(place, None)
                self._words[place[0], place[1] >> 3] = True
            except MbarrierFault as fault:
                self._fail(_RULES[fault.rule], by, lane, place, problem=fault.problem)

    def invalidate(self, by: By, places: Places) -> None:
        """The bytes are ordinary memory again. Raises mbarrier.uninitialised, simulator.mbarrier-waited-on."""
        for lane, place in enumerate(_each(places)):
            known = self._at(by, lane, place)
            waiting = int((self._waits == (place[0] << 32) + place[1]).sum())
            if waiting:
                self._fail(rules.MBARRIER_WAITED_ON, by, lane, place, state=known, waiting=f"{waiting} threads")
            del self._objects[place]
            self._words[place[0], place[1] >> 3] = False
            self._ended.add(place)

    def arrive(
        self,
        by: By,
        places: Places,
        counts: NDArray[Any] | None = None,
        *,
        expect: NDArray[Any] | None = None,
        drop: bool = False,
        completes: bool = True,
        publishes: bool = True,
    ) -> NDArray[np.uint64]:
        """Arrive at each place, after expecting bytes there; gives the state words before it.

        Raises mbarrier.uninitialised, mbarrier.arrivals, mbarrier.expect-tx.
        """
        states = np.zeros(len(places[0]), np.uint64)
        self.has_relaxed |= not publishes
        for place, here in _groups(places):
            known = self._at(by, int(here[0]), place)
            self._last[place] = by
            if publishes:
                self._tell("release", _of(by, here), place, known.phase)
            if counts is None and expect is None and not drop and completes and len(here) <= known.pending:
                states[here] = known.states(len(here))
                known.arrive(len(here))
                continue
            for lane in here.tolist():
                states[lane] = known.state
                try:
                    if expect is not None:
                        known.expect(int(expect[lane]))
                    known.arrive(1 if counts is None else int(counts[lane]), drop=drop, completes=completes)
                except MbarrierFault as fault:
                    self._fail(_RULES[fault.rule], by, lane, place, problem=fault.problem)
        return states

    def transact(self, by: By, places: Places, counts: NDArray[Any], *, completed: bool) -> None:
        """Bytes to come at each place, or bytes that have come. Raises mbarrier.uninitialised, mbarrier.expect-tx."""
        for place, here in _groups(places):
            known = self._at(by, int(here[0]), place)
            self._last[place] = by
            if completed and known.stays_in_its_phase(counts[here]):
                self._tell("release", _of(by, here), place, known.phase)
                known.complete(int(counts[here].sum()))
                continue
            for lane in here.tolist():
                if completed:
                    self._tell("release", _of(by, np.array([lane])), place, known.phase)
                try:
                    known.complete(int(counts[lane])) if completed else known.expect(int(counts[lane]))
                except MbarrierFault as fault:
                    self._fail(_RULES[fault.rule], by, lane, place, problem=fault.problem)

    def must_exist(self, by: By, places: Places) -> None:
        """Each place has an mbarrier, on which an operation will complete. Raises mbarrier.uninitialised."""
        for place, here in _groups(places):
            self._at(by, int(here[0]), place)

    def await_more(self, by: By, places: Places) -> None:
        """One more arrival is pending at each place. Raises mbarrier.uninitialised, mbarrier.arrivals."""
        for lane, place in enumerate(_each(places)):
            try:
                self._at(by, lane, place).await_more()
            except MbarrierFault as fault:
                self._fail(_RULES[fault.rule], by, lane, place, problem=fault.problem)

    def passed(self, by: By, places: Places, parities: NDArray[Any]) -> Mask:
        """Whether the phase of each parity is complete. Raises mbarrier.uninitialised, mbarrier.parity."""
        done = np.zeros(len(places[0]), bool)
        wrong = np.flatnonzero(parities > 1)
        if len(wrong):
            lane = int(wrong[0])
            place = (int(places[0][lane]), int(places[1][lane]))
            self._fail(rules.MBARRIER_PARITY, by, lane, place, parity=int(parities[lane]))
        for place, here in _groups(places):
            known = self._at(by, int(here[0]), place)
            done[here] = parities[here] != known.phase & 1
        return done

    def passed_state(self, by: By, places: Places, states: NDArray[np.uint64]) -> Mask:
        """Whether the phase of each state word is complete. Raises simulator.mbarrier-state."""
        done = np.zeros(len(places[0]), bool)
        for lane, (place, state) in enumerate(zip(_each(places), states.tolist(), strict=True)):
            known = self._at(by, lane, place)
            waited = phase_of(state)
            if not known.phase - 1 <= waited <= known.phase:
                self._fail(rules.MBARRIER_STATE, by, lane, place, waited=waited, phase=known.phase)
            done[lane] = waited < known.phase
        return done

    def hold(self, threads: Threads, places: Places | None) -> None:
        """The threads wait at the places (None: no more): an object that is waited for must not be ended."""
        self._waits[threads] = -1 if places is None else (places[0] << 32) + places[1]

    def leave(self, by: By, places: Places, *, acquires: bool) -> None:
        """The threads go on, and see what came before the last completed phase of each place."""
        self._waits[by.threads] = -1
        self.has_relaxed |= not acquires
        for place, here in _groups(places) if acquires and self._wave.observers else ():
            known = self._objects.get(place)
            if known is not None:
                self._tell("acquire", _of(by, here), place, known.phase - 1)

    def text(self, places: Places) -> str:
        """The states of the places."""
        return "; ".join(f"{self.name(place)}: {self._objects.get(place)}" for place, _ in _groups(places))

    def causes(self, threads: Threads, places: Places, parities: NDArray[np.int64]) -> list[Cause]:
        """Why threads wait at their places for the phase of a parity, for the report of a deadlock."""
        found = []
        for place, here in _groups(places):
            for parity in np.unique(parities[here]).tolist():
                known = self._objects[place]
                who, site = self._last.get(place), self._made[place]
                last = "nothing has arrived there yet" if who is None else _last(who)
                name = self._wave.shared_name(place[1])
                notes = [(f"the mbarrier {name} is initialised here", site.origin)] if site.origin else []
                if who is not None and who.site.origin:
                    notes.append((f"the last that came to the mbarrier {name} is this", who.site.origin))
                text = f"waits for the end of the phase of parity {parity} of the mbarrier {name}, "
                text += f"which is in {known.pending_text()}; {last}; a wait for parity {parity ^ 1} would pass"
                found.append(Cause(threads[here][parities[here] == parity], text, tuple(notes)))
        return found

    def words(self) -> NDArray[np.bool_] | None:
        """Which 8 bytes of each CTA's shared memory are an mbarrier, (CTAs, words); None where none is."""
        return self._words if self._objects else None

    def get(self, cta: int, offset: int) -> Mbarrier | None:
        """The object at a place."""
        return self._objects.get((cta, offset))

    def name(self, place: tuple[int, int]) -> str:
        """What messages call a place."""
        return f"the mbarrier {self._wave.shared_name(place[1])} of CTA {place[0]}"

    def _at(self, by: By, lane: int, place: tuple[int, int]) -> Mbarrier:
        known = self._objects.get(place)
        if known is None:
            if place[1] % MBARRIER_BYTES:
                self._fail(rules.MBARRIER_ADDRESS, by, lane, place)
            reason = "which was invalidated" if place in self._ended else "which no mbarrier.init has made one"
            self._fail(rules.MBARRIER_UNINITIALISED, by, lane, place, reason=reason)
        return known

    def _announce(self, by: By, lane: int, place: tuple[int, int]) -> None:
        """A new object: every use must come after this."""
        for observer in self._wave.observers:
            observer.release(Sync(_of(by, np.array([lane])), (MADE, *place)))

    def _tell(self, method: str, by: By, place: tuple[int, int], phase: int) -> None:
        if self._wave.observers:
            sync = Sync(by, token(*place, phase))
            for observer in self._wave.observers:
                getattr(observer, method)(sync)

    def _fail(self, rule: Any, by: By, lane: int, place: tuple[int, int], **values: object) -> NoReturn:
        fail(rule, self._wave, by, lane, place=self.name(place), **values)


def _each(places: Places) -> Iterator[tuple[int, int]]:
    return zip(places[0].tolist(), places[1].tolist(), strict=True)


def _groups(places: Places) -> Iterator[tuple[tuple[int, int], NDArray[np.int64]]]:
    """Each different place, and which of the threads have it."""
    ctas, offsets = places
    if not len(ctas):
        return
    if len(ctas) == 1:
        yield (int(ctas[0]), int(offsets[0])), np.zeros(1, np.int64)
        return
    keys = (ctas << 32) + offsets
    if (keys == keys[0]).all():
        yield (int(ctas[0]), int(offsets[0])), np.arange(len(keys))
        return
    for key in np.unique(keys).tolist():
        yield (key >> 32, key & 0xFFFFFFFF), np.flatnonzero(keys == key)


def _last(by: By) -> str:
    what = f"the {by.operation.engine}" if by.operation is not None else opcode(by.site.text)
    return f"{what} of PTX line {by.site.line} came there last"


def _of(by: By, here: NDArray[np.int64]) -> By:
    threads: Threads = by.threads if len(by.threads) == 1 else by.threads[here]
    return By(by.site, threads, by.operation, by.proxy, by.order, by.scope)
