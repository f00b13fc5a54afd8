"""Registers that hold what nothing wrote: a read of unwritten memory is a mistake where its value is used.

Pipelines load the fragments of a stage ahead, also of one that is never filled, and multiply by them no more.

So is a register that nothing set, where a product, a branch, an address or global memory takes its value. Compilers
pack, exchange and keep halves and lanes that are not set: what is made of these in part counts as set.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from nvbackend.simulator.events import Mask, Site, Threads
from nvbackend.simulator.machine.lanes import WARP, Lanes
from nvbackend.simulator.machine.unset import Unset
from nvbackend.simulator.machine.uses import Adds, Use, Uses
from nvbackend.simulator.machine.wave import Wave
from nvbackend.simulator.memory import UnsetRegister, UnwrittenRead

Origin = UnwrittenRead | UnsetRegister
_NOTHING = Unset()
_NOWHERE: frozenset[int] = frozenset()


class Unwritten:
    """What of a wave's registers nothing wrote.

    A program without registers that some path does not set costs nothing until it reads memory that nothing wrote.
    """

    def __init__(self, wave: Wave, uses: Uses, unset: Unset = _NOTHING) -> None:
        self._wave = wave
        self._failures = wave.memory.failures
        self._failures.watches = self.read
        self._uses = uses
        self._places = unset.places
        everyone = wave.exists.copy()
        self.slots: dict[int, tuple[Mask, Origin]] = {
            slot: (everyone, UnsetRegister(name)) for slot, name in unset.names.items()
        }
        """The threads whose register holds it, and the read that it is from, or the register that nothing set.

        Registers of the same threads share an array, which is never written in place.
        """
        self.is_everywhere = False
        """Whether every instruction is followed: what is read of memory may go anywhere."""

    def places(self, start: int) -> frozenset[int]:
        """The numbers of the instructions that are followed, of the block that starts at a place."""
        return self._places.get(start, _NOWHERE)

    def read(self, read: UnwrittenRead) -> bool:
        """Whether a read is a load of registers, which are watched from here on; anything else uses what it reads."""
        use = self._uses().get(read.by.site)
        if use is None or not use.is_load or read.by.operation is not None or len(read.by.threads) != len(read.wrong):
            return False
        threads = self._mask(read.by.threads[read.wrong])
        if use.by_warp:
            threads = _whole_warps(threads)
        for slot in use.results:
            self._add(slot, threads, read)
        self.is_everywhere = True
        return True

    def step(self, site: Site, lanes: Lanes) -> None:
        """Threads execute an instruction now."""
        use = self._uses().get(site)
        if use is None:
            return
        here = self._mask(lanes.threads)
        if use.guard is not None:
            if self._used(use.guard[:1], here, site):
                return
            here &= self._wave.registers[use.guard[0]] != use.guard[1]
        if self._used(use.needed, here, site, keeps=use.keeps):
            return
        if use.adds is not None and self._added(use.adds, here, site):
            return
        found = self._chosen(use, here) if use.chosen is not None else self._of(use.sources, here)
        self._clear(use.results, here)
        for slot in use.results if found else ():
            for threads, read in found:
                if isinstance(read, UnsetRegister) and (use.by_warp or (use.packs and len(found) < len(use.sources))):
                    continue
                self._add(slot, _whole_warps(threads) & here if use.by_warp else threads, read)

    def _of(self, slots: Iterable[int], here: Mask) -> list[tuple[Mask, Origin]]:
        found = ((self.slots[slot][0] & here, self.slots[slot][1]) for slot in slots if slot in self.slots)
        return [(threads, origin) for threads, origin in found if threads.any()]

    def _chosen(self, use: Use, here: Mask) -> list[tuple[Mask, Origin]]:
        """Of selp: what the value that is chosen is from, or the predicate."""
        assert use.chosen is not None
        first, second, predicate = use.chosen
        holds = self._wave.registers[predicate]
        sides = [(first, here & holds), (second, here & ~holds), (predicate, here)]
        return [found for slot, mask in sides if slot is not None for found in self._of([slot], mask)]

    def _mask(self, threads: Threads) -> Mask:
        mask: Mask = np.zeros(self._wave.size, bool)
        mask[threads] = True
        return mask

    def _add(self, slot: int, threads: Mask, read: Origin) -> None:
        if threads.any():
            before = self.slots.get(slot)
            self.slots[slot] = (threads, read) if before is None else (before[0] | threads, before[1])

    def _clear(self, slots: Iterable[int], threads: Mask) -> None:
        left: dict[int, Mask | None] = {}
        for slot in slots:
            before = self.slots.pop(slot, None)
            if before is None:
                continue
            mask, origin = before
            if id(mask) not in left:
                rest = mask & ~threads
                left[id(mask)] = rest if rest.any() else None
            if (kept := left[id(mask)]) is not None:
                self.slots[slot] = kept, origin

    def _added(self, adds: Adds, here: Mask, site: Site) -> bool:
        """Whether a wgmma adds to what nothing wrote; what it overwrites is written."""
        adding = here & (adds.always if adds.predicate is None else self._wave.registers[adds.predicate])
        if self._used(adds.slots, adding, site):
            return True
        self._clear(adds.slots, here)
        return False

    def _used(self, slots: Iterable[int], here: Mask, site: Site, *, keeps: bool = False) -> bool:
        """Whether some thread's register is used here that nothing wrote: the end of the run reports it."""
        elsewhere: set[int] = set()
        for slot in slots:
            found = self.slots.get(slot)
            if found is None or id(found[0]) in elsewhere:
                continue
            wrong = found[0] & here
            if not wrong.any():
                elsewhere.add(id(found[0]))
            elif isinstance(found[1], UnwrittenRead):
                self._failures.hold(found[1], site)
                self.slots = {}
                return True
            elif not keeps:
                self._failures.hold_unset(found[1], int(np.argmax(wrong)), int(wrong.sum()) - 1, site)
                self.slots = {}
                return True
        return False


def _whole_warps(threads: Mask) -> Mask:
    return np.repeat(threads.reshape(-1, WARP).any(axis=1), WARP)
