"""What the verifier asks of single instructions: that a row is ours, its registers, and what ptxas makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache

from nvbackend.diagnostics import Diagnostic, Location, Rule, Severity
from nvbackend.intrinsics.mma.emulation import emulation
from nvbackend.intrinsics.row.row import GUARD, Asm, Row, guarded
from nvbackend.isel.machine.function import MachineInstr
from nvbackend.isel.select.rows import asked_of
from nvbackend.isel.target.target import Target

ROW = Rule(
    id="machine.row",
    message="{instruction} is not what its axes say: its {field} is {given}, and that of the instruction is {wanted}",
    fix="take the row from the selector or from its family's module, as it is",
    why="The rules judge a row by its axes, and the rest of it is what LLVM prints.",
    reference="tileiras documents: tcgen05 emission, End-To-End Lowering; nvbackend machine form",
)

_SHOWN: dict[str, Callable[[Row], object]] = {
    "spelling": lambda row: row.ptx,
    "text": lambda row: row.lowering.template if isinstance(row.lowering, Asm) else row.lowering,
    "operands": lambda row: ", ".join(
        f"{operand.count} x {operand.name} ({operand.register.name})" for operand in row.operands
    ),
    "gate": lambda row: (row.requires, row.ptx_version),
    "effects": lambda row: row.effects,
    "row": lambda row: {field.name: getattr(row, field.name) for field in fields(row)},
}
"""What a row may differ in: its name, and the words for it; the last entry is everything else."""


def row_faults(row: Row, at: Location | None = None) -> Iterator[Diagnostic]:
    """What is different in a row that keeps all rules from what its axes select; families without axes have nothing."""
    selected = _selected(row)
    if selected is None or row == selected:
        return
    field, show = next((name, show) for name, show in _SHOWN.items() if show(row) != show(selected))
    yield ROW.diagnose(at=at, instruction=row.ptx, field=field, given=show(row), wanted=show(selected))


@cache
def _selected(row: Row) -> Row | None:
    """The row that the axes of `row` select; None in families without axes."""
    asked = asked_of(row)
    if asked is None:
        return None
    return guarded(asked.row) if row.has_operand(GUARD) else asked.row


REGISTERS = Rule(
    id="machine.registers",
    message="{instruction}: operand {name} has {given} register(s), and the instruction takes {wanted}",
    fix="give operand {name} {wanted} register(s)",
    why="The instruction has as many operands as its shape says: LLVM takes another number for another function.",
    reference="PTX ISA, the instruction's syntax",
)


def count_faults(instr: MachineInstr, target: Target) -> Iterator[Diagnostic]:  # noqa: ARG001
    """Every operand with another number of registers than its instruction takes; wmma's by its own rule."""
    if instr.row is None:
        return
    fragments = {part.name: part for part in instr.semantics.fragments}
    for operand in instr.row.operands:
        registers = instr.registers.get(operand.name, operand.count)
        fragment = fragments.get(operand.name)
        if fragment is not None:
            from nvbackend.intrinsics.fragments.wmma import register_class, register_count, spelled_shape
            from nvbackend.isel.operands.wmma import ARITY

            which, shape, element = fragment.which, fragment.shape, fragment.element
            wanted = register_count(which, shape, element)
            for count in {registers, operand.count} - {wanted}:
                yield ARITY.diagnose(
                    at=instr.location,
                    fragment=which.upper(),
                    shape=spelled_shape(shape),
                    element=element,
                    count=wanted,
                    given=count,
                    register=register_class(element).llvm,
                )
        elif registers != operand.count:
            yield REGISTERS.diagnose(
                at=instr.location, instruction=instr.row.ptx, name=operand.name, given=registers, wanted=operand.count
            )


EMULATED = Rule(
    id="row.emulated",
    message="{target} has no {instruction}: ptxas makes {expansion} of it",
    fix="{instead}",
    why="It computes the same, at a fraction of the speed that the instruction has where it is native.",
    reference="SASS of ptxas 13.5 for each chip (benchmarks/emulation.py)",
    severity=Severity.WARNING,
)


def emulation_warnings(row: Row, target: Target, at: Location | None = None) -> Iterator[Diagnostic]:
    """The warning row.emulated where `target` has no such instruction (severity WARNING)."""
    emulated = emulation(row, target.number)
    if emulated is not None:
        yield EMULATED.diagnose(
            at=at, target=target, instruction=row.ptx, expansion=emulated.expansion, instead=emulated.instead
        )
