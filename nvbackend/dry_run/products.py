"""Products of tcgen05 whose results nothing reads before the next ones take their place."""

from __future__ import annotations

from collections.abc import Sequence

from nvbackend.dry_run import rules
from nvbackend.dry_run.findings import MISSED
from nvbackend.dry_run.order.record import Record
from nvbackend.dry_run.order.shadow import Records, Shadow
from nvbackend.dry_run.order.words import after_rounds, crew, in_rounds, instruction, line
from nvbackend.dry_run.protocols.state import State
from nvbackend.dry_run.seam import Step
from nvbackend.isel.machine.function import TMEM

_COLUMNS = 512


def check_lost(state: State, shadow: Shadow, step: Step, parts: Sequence[slice]) -> None:
    """Whether a product starts a new sum in cells whose last one nothing has read."""
    first = _unread(state.memory.records, shadow, parts)
    if first is None or not _is_lost(first, step, state.tensor_commits[step.cta, step.warps[0]]):
        return
    instr = first.parts[0].instr
    who = f"{instruction(instr)} of {crew(instr, first.warp)}{after_rounds(first.rounds)}"
    state.findings.add(
        *(MISSED, TMEM, rules.TENSOR_LOST, step.instr, ((who, instr.location),)),
        now=in_rounds(step.rounds()), second=f"{instruction(step.instr)} of {crew(step.instr, step.warps[0])}",
        first=who, column=parts[0].start % _COLUMNS, line=line(step.instr),
    )  # fmt: skip


def _unread(records: Records, shadow: Shadow, parts: Sequence[slice]) -> Record | None:
    """The product whose result is in all of the cells, and which nothing has read."""
    numbers = {shadow.last_unread(part) for part in parts}
    record = records.records[numbers.pop()] if len(numbers) == 1 else None
    return record if record is not None and record.parts[0].instr.semantics.multiplies else None


def _is_lost(first: Record, step: Step, commits: int) -> bool:
    """Whether nothing can have read it, or it is of an earlier step of the same sum.

    What others may have waited for, they may leave unread on purpose, as a guess that did not hold. `commits` are the
    events of the commits of its thread.
    """
    before, now = first.rounds, step.rounds()
    is_of_sum = before.names == now.names and before.numbers[:-1] == now.numbers[:-1]
    return is_of_sum or not commits >> first.event
