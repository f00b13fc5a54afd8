"""Registers that hold what nothing wrote: a read of unwritten memory is a mistake where its value is used.

Pipelines load the fragments of a stage ahead, also of one that is never filled, and multiply by them no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.ptx.syntax import Address, Guard, Instruction, Name, Operand, Pair, Vector
from nvbackend.simulator.events import Mask, Site, Threads
from nvbackend.simulator.machine.deciding import COMPUTES
from nvbackend.simulator.machine.in_flight import slots_of
from nvbackend.simulator.machine.lanes import WARP, Lanes
from nvbackend.simulator.machine.symbols import CARRY_FLAG, Symbols
from nvbackend.simulator.machine.wave import Wave
from nvbackend.simulator.memory import UnwrittenRead

_BY_WARP = ("shfl", "vote", "match", "redux", "elect", "activemask")
_SPREADS = ("ldmatrix", "wmma")
"""Loads whose words come to all lanes of the warp."""
_IN_PLACE = ("wgmma",)
_CARRIES = ("addc", "subc", "madc")


@dataclass(frozen=True, slots=True)
class Use:
    """The slots of one instruction: those whose values it needs, its results, and what these are computed from."""

    needed: frozenset[int] = frozenset()
    results: frozenset[int] = frozenset()
    sources: frozenset[int] = frozenset()
    chosen: tuple[int | None, int | None, int] | None = None
    """Of selp: what it chooses from, and the predicate."""
    guard: tuple[int, bool] | None = None
    is_load: bool = False
    by_warp: bool = False
    """Whether results come of other lanes of the warp, too."""


Uses = Callable[[], Mapping[Site, Use]]


class Unwritten:
    """What of a wave's registers nothing wrote. It costs nothing until something is read that nothing wrote."""

    def __init__(self, wave: Wave, uses: Uses) -> None:
        self._wave = wave
        self._failures = wave.memory.failures
        self._failures.watches = self.read
        self._uses = uses
        self.slots: dict[int, tuple[Mask, UnwrittenRead]] = {}
        """The threads whose register holds it, and the read that it is from."""

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
        return True

    def step(self, site: Site, lanes: Lanes) -> None:
        """Threads execute an instruction now."""
        use = self._uses().get(site)
        if use is None:
            return
        here = self._mask(lanes.threads)
        if use.guard is not None:
            if self._used(use.guard[0], here, site):
                return
            here &= self._wave.registers[use.guard[0]] != use.guard[1]
        if any(self._used(slot, here, site) for slot in use.needed):
            return
        found = self._chosen(use, here) if use.chosen is not None else self._of(use.sources, here)
        for slot in use.results:
            self._clear(slot, here)
            for threads, read in found:
                self._add(slot, _whole_warps(threads) & here if use.by_warp else threads, read)

    def _of(self, slots: Iterable[int], here: Mask) -> list[tuple[Mask, UnwrittenRead]]:
        return [(self.slots[slot][0] & here, self.slots[slot][1]) for slot in slots if slot in self.slots]

    def _chosen(self, use: Use, here: Mask) -> list[tuple[Mask, UnwrittenRead]]:
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

    def _add(self, slot: int, threads: Mask, read: UnwrittenRead) -> None:
        if threads.any():
            before = self.slots.get(slot)
            self.slots[slot] = (threads, read) if before is None else (before[0] | threads, before[1])

    def _clear(self, slot: int, threads: Mask) -> None:
        before = self.slots.pop(slot, None)
        if before is not None and (rest := before[0] & ~threads).any():
            self.slots[slot] = rest, before[1]

    def _used(self, slot: int, here: Mask, site: Site) -> bool:
        """Whether some thread's register is used here that nothing wrote: the end of the run reports it."""
        found = self.slots.get(slot)
        if found is None or not (found[0] & here).any():
            return False
        self._failures.hold(found[1], site)
        self.slots = {}
        return True


def _whole_warps(threads: Mask) -> Mask:
    return np.repeat(threads.reshape(-1, WARP).any(axis=1), WARP)


def uses(
    symbols: Symbols, lines: Iterable[tuple[Instruction, Site]], computes: Callable[[Instruction], bool]
) -> dict[Site, Use]:
    """How each instruction uses its registers; `computes` says whether it does nothing but compute registers."""
    return {site: _use(symbols, line, computes=computes(line)) for line, site in lines}


def _use(symbols: Symbols, line: Instruction, *, computes: bool) -> Use:
    opcode, operands = line.parts[0], line.operands
    guard = _guard(symbols, line.guard)
    is_result = bool(operands) and isinstance(operands[0], Name | Vector | Pair) and opcode not in _IN_PLACE
    first = operands[:1] if is_result else ()
    results, rest = _slots(symbols, first), _slots(symbols, operands[len(first) :])
    if opcode == "selp":
        ends = [next(iter(_slots(symbols, [one])), None) for one in operands[1:4]]
        if ends[2] is not None:
            return Use(results=results, chosen=(ends[0], ends[1], ends[2]), guard=guard)
    if computes or opcode in COMPUTES:
        has_carry = opcode in _CARRIES or "cc" in line.parts
        carry = _slots(symbols, [CARRY_FLAG]) if has_carry else frozenset()
        return Use(results=results | carry, sources=rest | carry, guard=guard, by_warp=opcode in _BY_WARP)
    if opcode in ("ld", "ldu", *_SPREADS) and any(isinstance(one, Address) for one in operands[1:]):
        return Use(rest, results, guard=guard, is_load=True, by_warp=opcode in _SPREADS)
    return Use(rest, results, guard=guard)


def _guard(symbols: Symbols, guard: Guard | None) -> tuple[int, bool] | None:
    slot = next(iter(_slots(symbols, [guard.register])), None) if guard is not None else None
    return None if slot is None or guard is None else (slot, guard.negated)


def _slots(symbols: Symbols, operands: Iterable[Operand]) -> frozenset[int]:
    return frozenset(slots_of(symbols, operands))
