"""Whether a row is the row of its axes: the rules judge the axes, and the rest of the row is printed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields

from nvbackend.diagnostics import Diagnostic, Location, Rule
from nvbackend.intrinsics.row.guard import GUARD, guarded
from nvbackend.intrinsics.row.row import Asm, Row
from nvbackend.isel.select.rows import asked_of

ROW = Rule(
    id="machine.row",
    message="{instruction} is not what its axes say: its {field} is {given}, and that of the instruction is {wanted}",
    fix="take the row from the selector or from its family's module, as it is",
    why="The rules judge a row by its axes, and the rest of it is what LLVM prints.",
    reference="tileiras documents: tcgen05 emission, End-To-End Lowering; nvbackend machine form",
)
RULES = (ROW,)

_SHOWN: dict[str, Callable[[Row], object]] = {
    "spelling": lambda row: row.ptx,
    "text": lambda row: row.lowering.template if isinstance(row.lowering, Asm) else row.lowering,
    "operands": lambda row: ", ".join(f"{one.count} x {one.name} ({one.register.name})" for one in row.operands),
    "gate": lambda row: (row.requires, row.ptx_version),
    "effects": lambda row: row.effects,
    "row": lambda row: {one.name: getattr(row, one.name) for one in fields(row)},
}
"""What a row may differ in: its name, and the words for it; the last entry is everything else."""


def row_faults(row: Row, at: Location | None = None) -> Iterator[Diagnostic]:
    """What is different in a row that keeps all rules from what its axes select; families without axes have nothing."""
    asked = asked_of(row)
    if asked is None:
        return
    selected = asked.row
    if any(operand.name == GUARD for operand in row.operands):
        selected = guarded(selected)
    if row == selected:
        return
    field, show = next((name, show) for name, show in _SHOWN.items() if show(row) != show(selected))
    yield ROW.diagnose(at=at, instruction=row.ptx, field=field, given=show(row), wanted=show(selected))
