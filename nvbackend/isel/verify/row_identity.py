"""Whether a row is the row of its axes: the rules judge the axes, and the rest of the row is printed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nvbackend.diagnostics import Diagnostic, Location, Rule
from nvbackend.intrinsics.copy import tma_parts
from nvbackend.intrinsics.mma import mma, tcgen05, wmma
from nvbackend.intrinsics.row.guard import GUARD, guarded
from nvbackend.intrinsics.row.row import Asm, Row
from nvbackend.isel.protocols.wgmma.state import MMA_ASYNC
from nvbackend.isel.select.mma import request as mma_request
from nvbackend.isel.select.tcgen05 import request as tcgen05_request
from nvbackend.isel.select.tma import request as tma_request
from nvbackend.isel.select.wgmma import request as wgmma_request
from nvbackend.isel.select.wmma import request as wmma_request
from nvbackend.isel.select.wmma.select import wmma_row

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
    "row": lambda row: row,
}
"""What a row may differ in: its name, and the words for it; the last entry is everything else."""


def row_faults(row: Row, at: Location | None = None) -> Iterator[Diagnostic]:
    """What is different in a row that keeps all rules from what its axes select; families without axes have nothing."""
    selected = _selected(row)
    if selected is None:
        return
    if any(operand.name == GUARD for operand in row.operands):
        selected = guarded(selected)
    if row == selected:
        return
    field, show = next((name, show) for name, show in _SHOWN.items() if show(row) != show(selected))
    yield ROW.diagnose(at=at, instruction=row.ptx, field=field, given=show(row), wanted=show(selected))


def _selected(row: Row) -> Row | None:
    if row.opcode == MMA_ASYNC:
        return wgmma_request.row_of(wgmma_request.request_of(row))
    if row.opcode in (tcgen05.MMA, tcgen05.MMA_WS):
        return tcgen05_request.row_of(tcgen05_request.request_of(row))
    if row.family == mma.FAMILY:
        return mma_request.row_of(mma_request.request_of(row))
    if row.family == wmma.FAMILY:
        return wmma_row(wmma_request.request_of(row))
    if row.family == tma_parts.FAMILY:
        copied = tma_request.request_of(row)
        return tma_request.row_of(copied) if copied is not None else None
    return None
