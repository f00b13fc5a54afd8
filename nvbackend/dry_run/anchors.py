"""Where in the LLVM function each instruction of the machine form is, and with which registers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nvbackend.diagnostics import Location
from nvbackend.isel.machine.function import MachineInstr

if TYPE_CHECKING:
    from llvmlite import ir


@dataclass(frozen=True, slots=True)
class Anchor:
    """An instruction of the machine form, and the LLVM instruction that it follows: None at a block's start.

    `registers` are the LLVM values of its operands, inputs and outputs, by name in the row; numbers are kept as they
    are.
    """

    instr: MachineInstr
    after: ir.Instruction | None
    registers: Mapping[str, Sequence[ir.Value | int]]


class Anchors:
    """The instructions of a function as they are recorded, by block. `registers` are those of the next one.

    `loops` are the lines of the loops, and the names that they were made with, by their headers.
    """

    def __init__(self) -> None:
        self.blocks: dict[str, list[Anchor]] = {}
        self.loops: dict[str, tuple[Location | None, str]] = {}
        self.registers: Mapping[str, Sequence[ir.Value | int]] = {}

    def record(self, block: ir.Block, instr: MachineInstr) -> None:
        """`instr` is emitted at the end of `block`."""
        after = block.instructions[-1] if block.instructions else None
        self.blocks.setdefault(block.name, []).append(Anchor(instr, after, self.registers))
        self.registers = {}
