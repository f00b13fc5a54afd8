"""Fences, sleep and traps. PTX ISA 9.7.13 (membar, fence), 9.7.12, 9.7.19."""

from __future__ import annotations

from nvbackend.ptx.syntax import Instruction
from nvbackend.simulator.machine.compiling import Compiling
from nvbackend.simulator.machine.lanes import Lanes
from nvbackend.simulator.machine.wave import Step, Waiting, Wave
from nvbackend.simulator.rules import TRAP

_LEVELS = {"cta": "cta", "gl": "gpu", "sys": "sys"}


def compile(instruction: Instruction, place: Compiling) -> Step:
    """membar, fence; griddepcontrol, pmevent, which change nothing here; nanosleep; trap, brkpt."""
    opcode = instruction.parts[0]
    if opcode in ("membar", "fence"):
        return _fence(instruction, place)
    if opcode == "nanosleep":
        return _sleep
    return _trap(instruction, place) if opcode in ("trap", "brkpt") else _nothing


def _nothing(_wave: Wave, _lanes: Lanes) -> None:
    pass


def _fence(instruction: Instruction, place: Compiling) -> Step:
    kind = ".".join(instruction.parts[1:])
    if instruction.parts[0] == "membar" and kind in _LEVELS:
        kind = f"sc.{_LEVELS[kind]}"

    def step(wave: Wave, lanes: Lanes) -> None:
        for observer in wave.observers:
            observer.fence(place.by(lanes), kind)

    return step


def _sleep(_wave: Wave, lanes: Lanes) -> Waiting:
    """Others run meanwhile."""
    return Waiting(lanes, lambda: True, lambda: "sleeps")


def _trap(instruction: Instruction, place: Compiling) -> Step:
    def step(wave: Wave, lanes: Lanes) -> None:
        site = place.site
        thread = wave.thread_name(int(lanes.threads[0]))
        TRAP.fail(at=site.location, thread=thread, what=instruction.opcode, line=site.line)

    return step
