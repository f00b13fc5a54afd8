"""The mbarriers of a wave: which bytes of shared memory hold one, and what threads and engines do to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from nvbackend.simulator.events import By, Mask, Sync, Threads
from nvbackend.simulator.machine.wave import Wave
from nvbackend.simulator.sync import rules
from nvbackend.simulator.sync.faults import fail
from nvbackend.simulator.sync.mbarrier import MBARRIER_BYTES, Mbarrier, MbarrierFault, made, phase_of

Places = tuple[NDArray[np.int64], NDArray[np.int64]]
"""The CTA in the wave and the offset in its shared memory, of each thread's mbarrier."""
_RULES = {
    "arrivals": rules.MBARRIER_ARRIVALS,
    "count": rules.MBARRIER_COUNT,
    "expect-tx": rules.MBARRIER_EXPECT_TX,
}


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
        self._ended: set[tuple[int, int]] = set()
        self._waiting: dict[tuple[int, int], int] = {}

    def __iter__(self) -> Iterator[tuple[tuple[int, int], Mbarrier]]:
        """Every mbarrier with its CTA and offset."""
        return iter(sorted(self._objects.items()))

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
            except MbarrierFault as fault:
                self._fail(_RULES[fault.rule], by, lane, place, problem=fault.problem)

    def invalidate(self, by: By, places: Places) -> None:
        """The bytes are ordinary memory again. Raises mbarrier.uninitialised, simulator.mbarrier-waited-on."""
        for lane, place in enumerate(_each(places)):
            known = self._at(by, lane, place)
            waiting = self._waiting.get(place, 0)
            if waiting:
                self._fail(rules.MBARRIER_WAITED_ON, by, lane, place, state=known, waiting=f"{waiting} threads")
            del self._objects[place]
            self._ended.add(place)

    def arrive(
        self,
        by: By,
        places: Places,
        counts: NDArray[Any] | int = 1,
        *,
        expect: NDArray[Any] | None = None,
        drop: bool = False,
        completes: bool = True,
        publishes: bool = True,
    ) -> NDArray[np.uint64]:
        """Arrive at each place, after expecting bytes there; gives the state words before it.

        Raises mbarrier.uninitialised, mbarrier.arrivals, mbarrier.expect-tx.
        """
        count = len(places[0])
        states = np.zeros(count, np.uint64)
        each = [counts] * count if isinstance(counts, int) else counts.tolist()
        bytes = [0] * count if expect is None else expect.tolist()
        for lane, place in enumerate(_each(places)):
            known = self._at(by, lane, place)
            states[lane] = known.state
            if publishes:
                self._publish(by, lane, place, known)
            try:
                if expect is not None:
                    known.expect(bytes[lane])
                known.arrive(each[lane], drop=drop, completes=completes)
            except MbarrierFault as fault:
                self._fail(_RULES[fault.rule], by, lane, place, problem=fault.problem)
        return states

    def transact(self, by: By, places: Places, counts: NDArray[Any], *, completed: bool) -> None:
        """Bytes to come at each place, or bytes that have come. Raises mbarrier.uninitialised, mbarrier.expect-tx."""
        for lane, (place, count) in enumerate(zip(_each(places), counts.tolist(), strict=True)):
            known = self._at(by, lane, place)
            if completed:
                self._publish(by, lane, place, known)
            try:
                known.complete(count) if completed else known.expect(count)
            except MbarrierFault as fault:
                self._fail(_RULES[fault.rule], by, lane, place, problem=fault.problem)

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
        for lane, (place, parity) in enumerate(zip(_each(places), parities.tolist(), strict=True)):
            if parity not in (0, 1):
                self._fail(rules.MBARRIER_PARITY, by, lane, place, parity=parity)
            done[lane] = self._at(by, lane, place).has_passed(parity)
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

    def acquire(self, by: By, places: Places) -> None:
        """The threads see what came before the last completed phase of each place."""
        if not self._wave.observers:
            return
        for lane, place in enumerate(_each(places)):
            known = self._objects.get(place)
            if known is not None and known.phase:
                sync = Sync(_by_lane(by, lane), token(*place, known.phase - 1))
                for observer in self._wave.observers:
                    observer.acquire(sync)

    def wait(self, places: Places, change: int) -> None:
        """So many more (or fewer) threads wait at each place: an object that is waited for must not be ended."""
        for place in _each(places):
            self._waiting[place] = self._waiting.get(place, 0) + change

    def get(self, cta: int, offset: int) -> Mbarrier | None:
        """The object at a place."""
        return self._objects.get((cta, offset))

    def name(self, place: tuple[int, int]) -> str:
        """What messages call a place."""
        return f"the mbarrier at shared address {place[1]:#x} of CTA {place[0]}"

    def _at(self, by: By, lane: int, place: tuple[int, int]) -> Mbarrier:
        known = self._objects.get(place)
        if known is None:
            if place[1] % MBARRIER_BYTES:
                self._fail(rules.MBARRIER_ADDRESS, by, lane, place)
            reason = "which was invalidated" if place in self._ended else "which no mbarrier.init has made one"
            self._fail(rules.MBARRIER_UNINITIALISED, by, lane, place, reason=reason)
        return known

    def _publish(self, by: By, lane: int, place: tuple[int, int], known: Mbarrier) -> None:
        if self._wave.observers:
            sync = Sync(_by_lane(by, lane), token(*place, known.phase))
            for observer in self._wave.observers:
                observer.release(sync)

    def _fail(self, rule: Any, by: By, lane: int, place: tuple[int, int], **values: object) -> NoReturn:
        fail(rule, self._wave, by, lane, place=self.name(place), **values)


def _each(places: Places) -> Iterator[tuple[int, int]]:
    return zip(places[0].tolist(), places[1].tolist(), strict=True)


def _by_lane(by: By, lane: int) -> By:
    threads: Threads = by.threads if len(by.threads) == 1 else by.threads[lane : lane + 1]
    return By(by.site, threads, by.operation, by.proxy, by.order, by.scope)
