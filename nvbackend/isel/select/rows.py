"""What keeps a row of any family from a target, and what it must be given: the gates at each emission.

The verifier asks the same of the machine form. So nothing that it refuses is ever emitted, and LLVM is never asked for
an instruction that it cannot select.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nvbackend.diagnostics import Diagnostic, Location, Rule, raise_all
from nvbackend.intrinsics.copy import tma_parts
from nvbackend.intrinsics.mma import mma, tcgen05, wgmma, wmma
from nvbackend.intrinsics.row.row import Operand, Role, Row
from nvbackend.intrinsics.row.semantics import Completion
from nvbackend.isel.operands.memory import PENDING_COPIES, PENDING_STORES
from nvbackend.isel.select.mma import request as mma_request
from nvbackend.isel.select.mma import rules as mma_rules
from nvbackend.isel.select.tcgen05 import request as tcgen05_request
from nvbackend.isel.select.tcgen05 import rules as tcgen05_rules
from nvbackend.isel.select.tma import request as tma_request
from nvbackend.isel.select.tma import rules as tma_rules
from nvbackend.isel.select.wgmma import request as wgmma_request
from nvbackend.isel.select.wgmma import rules as wgmma_rules
from nvbackend.isel.select.wmma import request as wmma_request
from nvbackend.isel.select.wmma import rules as wmma_rules
from nvbackend.isel.target.gates import Gate, targets_with, why_not
from nvbackend.isel.target.target import Target, dotted

FEATURE = Gate[Row](
    Rule(
        id="target.feature",
        message="{instruction} needs {missing}, which {target} does not have",
        fix="compile for {targets}, or use an instruction that {target} has",
        why="LLVM ends the whole process where it cannot select an instruction, and ptxas refuses it.",
        reference="PTX ISA, Target ISA Notes of the instruction",
    ),
    lambda row, target: (
        None
        if target.has(row.requires)
        else {
            "instruction": row.ptx,
            "target": target,
            "missing": " and ".join(str(feature.name) for feature in row.requires & ~target.features),
            "targets": targets_with(row.requires),
        }
    ),
)
PTX_VERSION = Gate[Row](
    Rule(
        id="target.row-ptx-version",
        message="{instruction} needs PTX {needed} or later; {target} is compiled with PTX {given}",
        fix="leave the PTX version of the target out, or give {needed} or later",
        why="LLVM ends the whole process, or ptxas refuses the instruction.",
        reference="PTX ISA, PTX ISA Notes of the instruction",
    ),
    lambda row, target: (
        None
        if target.ptx_version >= row.ptx_version
        else {
            "instruction": row.ptx,
            "needed": dotted(row.ptx_version),
            "target": target,
            "given": dotted(target.ptx_version),
        }
    ),
)
IMMEDIATE = Rule(
    id="machine.immediate",
    message="{instruction}: immediate {name} is {given}, and must be {legal}",
    fix="use {nearest}",
    why="The encoding cannot hold it: the value is cut off, or LLVM or ptxas stop without a place in the program.",
    reference="PTX ISA, the instruction's syntax",
)
OPERANDS = Rule(
    id="instruction.operands",
    message="{instruction} takes {wanted}, and {given} was given",
    fix="give each operand by its name; nvbackend explain says what they are",
    why="An operand that is missing has no register, and one too many has no place in the statement.",
    reference="PTX ISA, the instruction's syntax",
)
GATES = (FEATURE, PTX_VERSION)
"""What every row asks of a target."""
RULES = (*(gate.rule for gate in GATES), IMMEDIATE, OPERANDS)
_IMMEDIATE_RULES: dict[Completion | None, Rule] = {
    Completion.MMA_GROUP: wgmma_rules.WAIT_RANGE,
    Completion.COPY_GROUP: PENDING_COPIES,
    Completion.BULK_GROUP: PENDING_STORES,
}
"""By what is waited for: the rules of how much may be left."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The request that a row answers, with the gates on it and the way back to the row."""

    request: Any
    gates: Sequence[Gate[Any]]
    row_of: Callable[[Any], Row]

    @property
    def row(self) -> Row:
        """The row that the request selects."""
        return self.row_of(self.request)


def asked_of(row: Row, immediates: Mapping[str, int] | None = None) -> Asked | None:
    """What selects `row` with these `immediates`; None for a row that no request asks for."""
    if row.opcode == wgmma.MMA_ASYNC:
        return Asked(wgmma_request.request_of(row, immediates), wgmma_rules.GATES, wgmma_request.row_of)
    if row.family == mma.FAMILY:
        return Asked(mma_request.request_of(row, immediates), mma_rules.GATES, mma_request.row_of)
    if row.opcode in (tcgen05.MMA, tcgen05.MMA_WS):
        return Asked(tcgen05_request.request_of(row), tcgen05_rules.GATES, tcgen05_request.row_of)
    if row.family == wmma.FAMILY:
        gates = wmma_rules.GATES if row.opcode == wmma.MMA else wmma_rules.MOVE_GATES
        return Asked(wmma_request.request_of(row), gates, wmma_request.row_of)
    if row.family == tma_parts.FAMILY and (copied := tma_request.request_of(row)) is not None:
        return Asked(copied, tma_rules.GATES, tma_request.row_of)
    return None


def check_row(row: Row, target: Target, immediates: Mapping[str, int]) -> None:
    """Raises whatever keeps `row` with these immediates from being emitted for `target`, at the caller's line."""
    if general_faults(row, target, immediates):
        raise_all(faults(row, target, immediates))


def faults(row: Row, target: Target, immediates: Mapping[str, int], at: Location | None = None) -> list[Diagnostic]:
    """Everything that `target` and these immediates have against `row`; nothing where it is legal there.

    Asks the gates of a request first, which know what to use instead.
    """
    asked = asked_of(row, immediates)
    found = why_not(asked.gates, asked.request, target, at) if asked else []
    return found or general_faults(row, target, immediates, at)


def general_faults(
    row: Row, target: Target, immediates: Mapping[str, int], at: Location | None = None
) -> list[Diagnostic]:
    """What `target` lacks for `row`, and which of the `immediates` it does not take."""
    return [*why_not(GATES, row, target, at), *_immediate_faults(row, immediates, at)]


def _immediate_faults(row: Row, immediates: Mapping[str, int], at: Location | None) -> Iterator[Diagnostic]:
    for operand in row.immediates:
        given, legal = immediates.get(operand.name), operand.values or ()
        if given is not None and given not in legal:
            yield _IMMEDIATE_RULES.get(row.semantics.awaits, IMMEDIATE).diagnose(
                at=at,
                instruction=row.ptx,
                name=operand.name,
                given=given,
                legal=in_words(legal),
                nearest=min(legal, key=lambda value: abs(value - given)),
            )


def in_words(values: Iterable[int]) -> str:
    """Legal values for people: `24 to 256 by 8`, or each of them where they are not such a run."""
    run = sorted(values)
    step = run[1] - run[0] if len(run) > 1 else 1
    if len(run) > 2 and run == list(range(run[0], run[-1] + 1, step)):
        return f"{run[0]} to {run[-1]}" + (f" by {step}" if step > 1 else "")
    return " or ".join(str(value) for value in run)


def check_names(row: Row, given: Collection[str]) -> None:
    """Raises instruction.operands unless `given` are the operands that `row` reads, by name."""
    wanted = [one.name for one in row.operands if one.role is not Role.OUTPUT or one.tied]
    if set(wanted) != set(given):
        OPERANDS.fail(instruction=row.ptx, wanted=", ".join(wanted) or "nothing", given=", ".join(given) or "nothing")


def check_registers(row: Row, operand: Operand, given: int) -> None:
    """Raises instruction.operands unless `operand` has as many registers as were given."""
    if given != operand.count:
        said = f"{operand.count} register(s) of {operand.name}"
        OPERANDS.fail(instruction=row.ptx, wanted=said, given=f"{given}")
