"""Where in the LLVM function each instruction of the machine form is, and with which registers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from nvbackend.diagnostics import Location
from nvbackend.diagnostics.classes.dataclass import dataclass
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
    """The instructions of a function as they are recorded, by block.

    `loops` are the lines of the loops, and the names that they were made with, by their headers.
    """

    def __init__(self) -> None:
        self.blocks: dict[str, list[Anchor]] = {}
        self.loops: dict[str, tuple[Location | None, str]] = {}
