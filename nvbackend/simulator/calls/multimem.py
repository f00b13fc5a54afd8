"""multimem.*: memory that several GPUs share. One GPU alone is all of them: it loads, stores and reduces its own.

PTX ISA 9.7.9.14 (multimem).
"""

from __future__ import annotations

from dataclasses import replace

from nvbackend.ptx.syntax import Instruction
from nvbackend.simulator.calls import atomics, memory
from nvbackend.simulator.machine.compiling import Compiling
from nvbackend.simulator.machine.wave import Step

_REDUCTIONS = ("add", "min", "max", "and", "or", "xor", "acc::f32", "acc::f16")


def compile(instruction: Instruction, place: Compiling) -> Step:
    """The step of the instruction on ordinary memory that does the same."""
    action, *rest = instruction.parts[1:]
    if action == "ld_reduce":
        return memory.compile(*_as(place, "ld", [part for part in rest if part not in _REDUCTIONS]))
    if action == "st":
        return memory.compile(*_as(place, "st", rest))
    return atomics.compile(*_as(place, "red", rest)) if action == "red" else place.unknown(f".{action}")


def _as(place: Compiling, opcode: str, qualifiers: list[str]) -> tuple[Instruction, Compiling]:
    instruction = replace(place.instruction, opcode=".".join([opcode, *qualifiers]))
    return instruction, Compiling(instruction, place.site, place.symbols, place.target)
