"""cp.*: which module compiles an asynchronous copy, by what it copies."""

from __future__ import annotations

from nvbackend.ptx.syntax import Instruction
from nvbackend.simulator.calls.copies import bulk, cp_async, tma
from nvbackend.simulator.machine.compiling import Compiling
from nvbackend.simulator.machine.wave import Step


def compile(instruction: Instruction, place: Compiling) -> Step:
    """The step of any cp instruction."""
    parts = instruction.parts
    if "tensor" in parts:
        return tma.compile(instruction, place)
    return bulk.compile(instruction, place) if "bulk" in parts else cp_async.compile(instruction, place)
