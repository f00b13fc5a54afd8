"""How many registers the operands of a machine instruction have, against its row and, for wmma, its shape and types."""

from __future__ import annotations

from collections.abc import Iterator

from nvbackend.diagnostics import Diagnostic, Rule
from nvbackend.intrinsics.fragments.wmma import register_class, register_count, spelled_shape
from nvbackend.isel.machine.function import MachineInstr
from nvbackend.isel.operands.wmma import ARITY
from nvbackend.isel.target.target import Target

REGISTERS = Rule(
    id="machine.registers",
    message="{instruction}: operand {name} has {given} register(s), and the instruction takes {wanted}",
    fix="give operand {name} {wanted} register(s)",
    why="The instruction has as many operands as its shape says: LLVM takes another number for another function.",
    reference="PTX ISA, the instruction's syntax",
)
RULES = (REGISTERS,)


def count_faults(instr: MachineInstr, target: Target) -> Iterator[Diagnostic]:  # noqa: ARG001
    """Every operand with another number of registers than its instruction takes; wmma's by its own rule."""
    if instr.row is None:
        return
    fragments = {one.name: one for one in instr.semantics.fragments}
    for operand in instr.row.operands:
        given = instr.registers.get(operand.name, operand.count)
        fragment = fragments.get(operand.name)
        if fragment is not None:
            which, shape, element = fragment.which, fragment.shape, fragment.element
            wanted = register_count(which, shape, element)
            for count in {given, operand.count} - {wanted}:
                yield ARITY.diagnose(
                    at=instr.location,
                    fragment=which.upper(),
                    shape=spelled_shape(shape),
                    element=element,
                    count=wanted,
                    given=count,
                    register=register_class(element).llvm,
                )
        elif given != operand.count:
            yield REGISTERS.diagnose(
                at=instr.location, instruction=instr.row.ptx, name=operand.name, given=given, wanted=operand.count
            )
