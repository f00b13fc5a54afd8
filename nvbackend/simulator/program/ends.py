"""How blocks end: branches, calls, returns. PTX ISA 9.7.12 (Control Flow Instructions)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.simulator.events import Bits, By, Mask, Site
from nvbackend.simulator.machine.lanes import Lanes
from nvbackend.simulator.machine.wave import Reader, Wave
from nvbackend.simulator.program.blocks import Going
from nvbackend.simulator.program.device_heap import Allocating, Freeing
from nvbackend.simulator.program.printing import Failing, Printing
from nvbackend.simulator.rules import STACK, TRAP
from nvbackend.simulator.sync.ended import EndedWarps

LOCAL_BYTES = 512 << 10
"""The most local memory of a thread: CUDA Programming Guide, Technical Specifications per Compute Capability."""
ALL_STACKS = 256 << 20
"""The most bytes of the stacks of all threads that run at once. Of a full GPU each has 2 KB: CUDA's default is 1 KB."""
_SHALLOW = 64
"""So many calls may always be open."""
_DEEP = 4096
"""Bytes of a stack from which on it grows by parts of itself."""
_LEAST_FRAME = 16
"""What a call takes of it at least: the ABI aligns its stack to so many bytes."""


@dataclass(frozen=True, slots=True)
class Branch:
    """Threads whose predicate holds go to `taken`."""

    predicate: int
    negated: bool
    taken: int
    otherwise: int

    def go(self, wave: Wave, lanes: Lanes) -> int | Going:
        """Taken and not taken: one group each."""
        mask = wave.registers[self.predicate][lanes.index]
        taken = int(np.count_nonzero(mask))
        if self.negated:
            if taken == 0:
                return self.taken
            if taken == lanes.count:
                return self.otherwise
            mask = ~mask
        else:
            if taken == lanes.count:
                return self.taken
            if taken == 0:
                return self.otherwise
        return [(self.taken, Lanes(lanes.threads[mask])), (self.otherwise, Lanes(lanes.threads[~mask]))]


@dataclass(frozen=True, slots=True)
class Switch:
    """Each thread goes to the target of its index (`brx.idx`)."""

    index: Reader
    targets: tuple[int, ...]
    site: Site

    def go(self, wave: Wave, lanes: Lanes) -> Going:
        """A group for each target that some thread goes to."""
        values = self.index(wave, lanes)
        wrong = values >= len(self.targets)
        if wrong.any():
            thread = wave.thread_name(int(lanes.threads[wrong][0]))
            what = f"an indexed branch with index {int(values[wrong][0])} of {len(self.targets)} targets"
            TRAP.fail(at=self.site.location, thread=thread, what=what, line=self.site.line)
        return [(self.targets[one], lanes.where(values == one)) for one in np.unique(values).tolist()]


@dataclass(frozen=True, slots=True)
class Exit:
    """Threads end."""

    site: Site

    def go(self, wave: Wave, lanes: Lanes) -> Going:
        """Nobody goes on."""
        wave.alive = wave.alive.copy()
        wave.alive[lanes.index] = False
        wave.alive_count -= lanes.count
        by = By(self.site, lanes.threads)
        wave.part(EndedWarps).end(by)
        for observer in wave.observers:
            observer.exited(by)
        return []


@dataclass(slots=True)
class Callee:
    """What a call must know of a function: its name, where it starts, and what of it a recursive call must keep."""

    name: str
    is_recursive: bool
    entry: int
    slots: tuple[int, ...] = ()
    """The slots of its registers and parameters where it can call itself; else nothing has to be kept."""


class Calls:
    """The calls that threads of a wave are in: where each returns to, and what it finds there again."""

    def __init__(self, wave: Wave) -> None:
        self.depth: NDArray[np.int64] = np.zeros(wave.size, np.int64)
        self.returns: list[NDArray[np.int64]] = []
        self.kept: list[dict[int, Bits]] = []
        self.has_kept: list[Mask] = []
        self._size = wave.size

    def push(self, wave: Wave, lanes: Lanes, place: int, callee: Callee) -> None:
        """The threads call a function and will go on at `place`."""
        for depth in np.unique(self.depth[lanes.index]).tolist():
            here = lanes.where(self.depth[lanes.index] == depth)
            while len(self.returns) <= depth:
                self.returns.append(np.zeros(self._size, np.int64))
                self.kept.append({})
                self.has_kept.append(np.zeros(self._size, bool))
            self.returns[depth][here.index] = place
            self.has_kept[depth][here.index] = bool(callee.slots)
            for slot in callee.slots:
                values = wave.registers[slot]
                kept = self.kept[depth].setdefault(slot, np.zeros_like(values))
                kept[here.index] = values[here.index]
        self.depth[lanes.index] += 1

    def pop(self, wave: Wave, lanes: Lanes) -> Going:
        """The threads return: where each goes on."""
        self.depth[lanes.index] -= 1
        going: dict[int, list[NDArray[np.int64]]] = {}
        for depth in np.unique(self.depth[lanes.index]).tolist():
            here = lanes.where(self.depth[lanes.index] == depth)
            kept = here.threads[self.has_kept[depth][here.index]]
            for slot, values in self.kept[depth].items() if len(kept) else ():
                restored = wave.registers[slot].copy()
                restored[kept] = values[kept]
                wave.registers[slot] = restored
            places = self.returns[depth][here.index]
            for place in np.unique(places).tolist():
                going.setdefault(place, []).append(here.threads[places == place])
        return [(place, Lanes(np.sort(np.concatenate(parts)))) for place, parts in going.items()]


def _move_frame(wave: Wave, lanes: Lanes, slot: int, count: int) -> None:
    if count:
        frames = wave.registers[slot].copy()
        frames[lanes.index] += np.uint64(count & (1 << 64) - 1)
        wave.registers[slot] = frames
        if count > 0:
            local, needed = wave.memory.local, int(frames.max()) + 4 * count
            if needed > local.shape.size:  # by half of it where it is deep: to copy it at each call would take long
                local.grow(needed + (needed >> 1 if needed > _DEEP else 0))


@dataclass(slots=True)
class Call:
    """Threads enter a function and go on at `back` afterwards. `caller_bytes` is the local memory of the caller."""

    callees: Mapping[int, Callee]
    """By their addresses; one alone where the call names it."""
    target: Reader | None
    back: int
    frame_slot: int
    caller_bytes: int
    site: Site
    predicate: int | None = None
    negated: bool = False

    def go(self, wave: Wave, lanes: Lanes) -> int | Going:
        """To the functions, and after the call where the predicate does not hold."""
        rest: Going = []
        if self.predicate is not None:
            mask = wave.registers[self.predicate][lanes.index] != self.negated
            if not mask.any():
                return self.back
            if not mask.all():
                rest = [(self.back, lanes.where(~mask))]
                lanes = lanes.where(mask)
        if self.target is None:
            (callee,) = self.callees.values()
            return [*rest, self._enter(wave, lanes, callee)]
        addresses = self.target(wave, lanes)
        for address in np.unique(addresses).tolist():
            here = lanes.where(addresses == address)
            if address not in self.callees:
                thread = wave.thread_name(int(here.threads[0]))
                what = f"a call of address {address:#x}, where no function is"
                TRAP.fail(at=self.site.location, thread=thread, what=what, line=self.site.line)
            rest.append(self._enter(wave, here, self.callees[address]))
        return rest

    def _enter(self, wave: Wave, lanes: Lanes, callee: Callee) -> tuple[int, Lanes]:
        calls = wave.part(Calls)
        calls.push(wave, lanes, self.back, callee)
        _move_frame(wave, lanes, self.frame_slot, self.caller_bytes)
        depths = calls.depth[lanes.index]
        used = wave.registers[self.frame_slot][lanes.index] + _LEAST_FRAME * depths.astype(np.uint64)
        is_deep = callee.is_recursive and int(depths.max()) > _SHALLOW
        most = min(LOCAL_BYTES, ALL_STACKS // wave.size) if is_deep else LOCAL_BYTES
        if used.max() > most:
            deepest = int(used.argmax())
            thread = wave.thread_name(int(lanes.threads[deepest]))
            STACK.fail(
                at=self.site.location, thread=thread, function=callee.name, depth=int(depths[deepest]),
                line=self.site.line, most=most >> 10, threads=wave.alive_count,
            )  # fmt: skip
        return callee.entry, lanes


@dataclass(frozen=True, slots=True)
class Outside:
    """A call of what CUDA brings: vprintf, malloc, free, or a failed assertion."""

    back: int
    site: Site
    guard: tuple[int, bool] | None
    does: Printing | Failing | Allocating | Freeing

    def go(self, wave: Wave, lanes: Lanes) -> int:
        """After the call."""
        if self.guard is not None:
            predicate, negated = self.guard
            lanes = lanes.where(wave.registers[predicate][lanes.index] != negated)
        self.does.run(wave, lanes)
        return self.back


@dataclass(slots=True)
class Return:
    """Threads go on after the call; those that no call brought here end."""

    frame_slot: int
    frames: dict[int, int] = field(default_factory=dict)
    """The local memory of the caller, by the place that is returned to."""

    def go(self, wave: Wave, lanes: Lanes) -> Going:
        """To the places of the calls."""
        going = wave.part(Calls).pop(wave, lanes)
        for place, here in going:
            _move_frame(wave, here, self.frame_slot, -self.frames.get(place, 0))
        return going


@dataclass(frozen=True, slots=True)
class Guarded:
    """An end that only the threads go through whose predicate holds; the others go on at `otherwise`."""

    end: Exit | Return | Switch
    predicate: int
    negated: bool
    otherwise: int

    def go(self, wave: Wave, lanes: Lanes) -> int | Going:
        """Through the end, and to `otherwise`."""
        mask = wave.registers[self.predicate][lanes.index] != self.negated
        if not mask.any():
            return self.otherwise
        if mask.all():
            return self.end.go(wave, lanes)
        return [*self.end.go(wave, lanes.where(mask)), (self.otherwise, lanes.where(~mask))]
