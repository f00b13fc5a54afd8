"""Registers that asynchronous instructions write later: nothing may touch them until their thread has waited."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import NoReturn

import numpy as np

from nvbackend.diagnostics import Rule
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.ptx.names import names_in
from nvbackend.ptx.syntax import Instruction, Name, Operand, Pair, Vector
from nvbackend.simulator.events import Mask, Pending, Site, Threads
from nvbackend.simulator.machine.lanes import Lanes
from nvbackend.simulator.machine.symbols import Symbols
from nvbackend.simulator.machine.wave import Step, Waiting, Wave

READ = Rule(
    id="wgmma.read-in-flight",
    message="{thread} reads {register}, which {operation} may still be writing: it has not waited for its group",
    fix="commit the group and wait for it (wgmma.wait_group) before the register is read",
    why="The register holds an old, partial or new value, depending on timing. Nothing traps.",
    reference="PTX ISA 9.7.15.7.3 (wgmma.wait_group)",
)
WRITE = Rule(
    id="wgmma.write-in-flight",
    message="{thread} writes {register}, which {operation} may still be using: it has not waited for its group",
    fix="wait for the group (wgmma.wait_group) before the register is written",
    why="The tensor cores read and write the registers at any time until the wait: the result is undefined.",
    reference="PTX ISA 9.7.15.7.3 (wgmma.wait_group)",
)
LOAD = Rule(
    id="tcgen05.read-before-wait",
    message="{thread} uses {register}, which {operation} may still be writing: no tcgen05.wait::ld is between the two",
    fix="put tcgen05.wait::ld after the load: k.tcgen05.wait_ld()",
    why="The load is asynchronous: until wait::ld the registers may still hold what was there before.",
    reference="PTX ISA 9.7.16.8.5 (tcgen05.wait)",
)
_WGMMA, _LD, _COPY = ("wgmma", "mma_async"), ("tcgen05", "ld"), "mov"


@dataclass(eq=False, slots=True)
class Flight:
    """An operation whose results come later: the slots of its registers, those copied from them, and whose they are."""

    operation: Pending
    slots: frozenset[int]
    threads: Mask
    copies: set[int] = field(default_factory=set)


class Flights:
    """`wave.part(Flights)`: what is in flight for registers."""

    def __init__(self, wave: Wave) -> None:
        self._wave = wave
        self.all: list[Flight] = []

    def start(self, operation: Pending, slots: frozenset[int]) -> None:
        """The threads of the operation may not touch the slots from here on."""
        threads = np.zeros(self._wave.size, bool)
        threads[operation.threads] = True
        self.all.append(Flight(operation, slots, threads))

    def land(self, operation: Pending, threads: Threads) -> None:
        """Threads have waited for it."""
        for flight in self.all:
            if flight.operation is operation:
                flight.threads[threads] = False
        self.all = [flight for flight in self.all if flight.threads.any()]


def slots_of(symbols: Symbols, operands: Iterable[Operand]) -> dict[int, str]:
    """The slots of the registers that operands name, with their names."""
    found = {}
    for name in (name for operand in operands for name in names_in(operand)):
        for one in symbols.elements(name):
            register = symbols.register(one)
            if register is not None:
                found[register[0]] = name.text
    return found


def late_slots(symbols: Symbols, instructions: Iterable[Instruction]) -> frozenset[int]:
    """The slots that some asynchronous instruction writes later, or that are copied from one of these."""
    lines = list(instructions)
    late = {slot for one in lines if one.parts[:2] in (_WGMMA, _LD) for slot in slots_of(symbols, one.operands[:1])}
    if not late:
        return frozenset()
    copies = [
        (frozenset(slots_of(symbols, one.operands[:1])), frozenset(slots_of(symbols, one.operands[1:])))
        for one in lines
        if one.parts[0] == _COPY
    ]
    size = 0
    while len(late) > size:
        size = len(late)
        for targets, sources in copies:
            if not late.isdisjoint(sources):
                late |= targets
    return frozenset(late)


def guarded(step: Step, instruction: Instruction, site: Site, symbols: Symbols, late: frozenset[int]) -> Step:
    """The step of an instruction, which touches no register that is in flight for one of its threads.

    A mov of a result of wgmma does not count as a use: other compilers unpack registers before the wait, and ptxas
    moves the wait up or removes the mov. It gets the result, and what it writes is in flight too.
    """
    operands = instruction.operands
    if instruction.parts[:2] == _WGMMA:
        operands = operands[1:]
    elif instruction.parts[:2] == _LD:
        return step
    touched = {slot: name for slot, name in slots_of(symbols, operands).items() if slot in late}
    if not touched:
        return step
    first = operands[:1] if isinstance(operands[0], Name | Vector | Pair) and operands is instruction.operands else ()
    written = frozenset(slots_of(symbols, first)) - frozenset(slots_of(symbols, operands[1:]))
    is_copy = instruction.parts[0] == _COPY
    copied = frozenset(slots_of(symbols, operands[:1])) if is_copy else frozenset()

    def run(wave: Wave, lanes: Lanes) -> Waiting | None:
        for flight in wave.part(Flights).all:
            if not flight.threads[lanes.index].any():
                continue
            if not flight.slots.isdisjoint(touched):
                if copied.isdisjoint(flight.slots) and is_copy and flight.operation.engine == _WGMMA[0]:
                    if not flight.operation.done:
                        return _until_done(flight.operation, lanes)
                    flight.copies |= copied
                    continue
                slot = min(flight.slots & touched.keys())
                _fail(wave, lanes, flight, site, touched[slot], writes=slot in written)
            flight.copies -= written
            if not flight.copies.isdisjoint(touched):
                if not is_copy:
                    _fail(wave, lanes, flight, site, touched[min(flight.copies & touched.keys())], writes=False)
                flight.copies |= copied
        return step(wave, lanes)

    return run


def _until_done(operation: Pending, lanes: Lanes) -> Waiting:
    return Waiting(lanes, lambda: operation.done, lambda: f"the results of {operation.site}", again=True)


def written_in_flight(wave: Wave, operation: Pending, thread: int, register: str) -> NoReturn:
    """Raise wgmma.write-in-flight for a register that the operation has not read yet."""
    notes = ((f"PTX {operation.site}", None),)
    what = f"the wgmma of PTX line {operation.site.line}"
    WRITE.fail(
        at=operation.site.location, notes=notes, thread=wave.thread_name(thread), register=register, operation=what
    )


def _fail(wave: Wave, lanes: Lanes, flight: Flight, site: Site, register: str, *, writes: bool) -> NoReturn:
    operation = flight.operation
    rule = LOAD if operation.engine == "tcgen05.ld" else WRITE if writes else READ
    thread = wave.thread_name(int(lanes.threads[flight.threads[lanes.index]][0]))
    what = f"the {operation.engine} of PTX line {operation.site.line}"
    notes = ((f"PTX {site}", None), (f"it is issued here (PTX {operation.site})", operation.site.origin))
    rule.fail(at=site.location, notes=notes, thread=thread, register=register, operation=what)
