"""What keeps a row of any family from a target, and what it must be given: the gates at each emission.

The verifier asks the same of the machine form. So nothing that it refuses is ever emitted, and LLVM is never asked for
an instruction that it cannot select.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

from nvbackend.diagnostics import Diagnostic, DiagnosticError, Location, Rule, raise_all
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.copy import tma
from nvbackend.intrinsics.mma import families, wgmma
from nvbackend.intrinsics.row.row import Role, Row, RowOperand
from nvbackend.intrinsics.row.semantics import Completion, MbarrierUse
from nvbackend.intrinsics.sync.barriers import elect
from nvbackend.intrinsics.sync.mbarrier import test_wait_parity
from nvbackend.isel.machine.function import MachineInstr
from nvbackend.isel.operands.memory import (
    CLEARED_UNIT,
    PENDING_COPIES,
    PENDING_STORES,
    check_cleared,
    check_columns,
    check_policy,
    check_policy_range,
    check_read_bytes,
    check_sleep,
)
from nvbackend.isel.operands.sync import (
    check_arrival_count,
    check_barrier_id,
    check_barrier_threads,
    check_bulk_size,
    check_parity,
    check_transaction_count,
)
from nvbackend.isel.select.tma import request as tma_request
from nvbackend.isel.select.tma import select as tma_select
from nvbackend.isel.select.wgmma import request as wgmma_request
from nvbackend.isel.select.wgmma import rules as wgmma_rules
from nvbackend.isel.select.wgmma import select as wgmma_select
from nvbackend.isel.target.target import Gate, Target, dotted, suits, targets_with, why_not

_POLLED = ": with k.loop(): k.break_if(k.mbarrier.test(barrier, parity=parity))"
"""How to wait for a phase by tests alone."""
_CHOSEN = ": with k.if_(k.thread_id() == 0)"
"""How to choose a thread without elect.sync."""


def _waits_for_a_phase(row: Row) -> bool:
    use = row.semantics.mbarrier
    return use is not None and bool(use & MbarrierUse.WAIT) and row.has_operand("parity")


def _such_as(row: Row, target: Target) -> str:
    """What an earlier target has instead, where that is known."""
    if row.opcode == elect().opcode:
        return _CHOSEN
    return _POLLED if _waits_for_a_phase(row) and target.has(test_wait_parity().requires) else ""


FEATURE = Gate[Row](
    Rule(
        id="target.feature",
        message="{instruction} needs {missing}, which {target} does not have",
        fix="compile for {targets}, or use an instruction that {target} has{such_as}",
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
            "such_as": _such_as(row, target),
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
_IMMEDIATE_RULES: dict[Completion | None, Rule] = {
    Completion.MMA_GROUP: wgmma_rules.WAIT_RANGE,
    Completion.COPY_GROUP: PENDING_COPIES,
    Completion.BULK_GROUP: PENDING_STORES,
}
"""By what is waited for: the rules of how much may be left."""


@dataclass(frozen=True, slots=True)
class RowRequest:
    """The request that a row answers, with the gates on it and the way back to the row."""

    request: Any
    gates: Sequence[Gate[Any]]
    row_of: Callable[[Any], Row]

    @property
    def row(self) -> Row:
        """The row that the request selects."""
        return self.row_of(self.request)


def asked_of(row: Row, immediates: Mapping[str, int] | None = None) -> RowRequest | None:
    """What selects `row` with these `immediates`; None for a row that no request asks for."""
    if row.opcode == wgmma.MMA_ASYNC:
        return RowRequest(wgmma_request.request_of(row, immediates), wgmma_select.GATES, wgmma_select.row_of)
    if row.family == families.MMA:  # what a kernel has none of is not imported
        from nvbackend.isel.select.mma import request as mma_request
        from nvbackend.isel.select.mma import select as mma_select

        return RowRequest(mma_request.request_of(row, immediates), mma_select.GATES, mma_select.row_of)
    if row.opcode in (families.TCGEN05_MMA, families.TCGEN05_MMA_WS):
        from nvbackend.isel.select.tcgen05 import request as tcgen05_request
        from nvbackend.isel.select.tcgen05 import select as tcgen05_select

        return RowRequest(tcgen05_request.request_of(row), tcgen05_select.GATES, tcgen05_select.row_of)
    if row.family == families.WMMA:
        from nvbackend.isel.select.wmma import request as wmma_request
        from nvbackend.isel.select.wmma import select as wmma_select

        gates = wmma_select.GATES if row.opcode == families.WMMA_MMA else wmma_select.MOVE_GATES
        return RowRequest(wmma_request.request_of(row), gates, wmma_select.row_of)
    if row.family == tma.FAMILY and (copied := tma_request.request_of(row)) is not None:
        return RowRequest(copied, tma_select.GATES, tma_select.row_of)
    return None


def check_row(row: Row, target: Target, immediates: Mapping[str, int]) -> None:
    """Raises whatever keeps `row` with these immediates from being emitted for `target`, at the caller's line."""
    if not row.is_available(target.features, target.ptx_version) or any(_immediate_faults(row, immediates, None)):
        raise_all(faults(row, target, immediates))


def faults(row: Row, target: Target, immediates: Mapping[str, int], at: Location | None = None) -> list[Diagnostic]:
    """Everything that `target` and these immediates have against `row`; nothing where it is legal there.

    Asks the gates of a request first, which know what to use instead.
    """
    asked = asked_of(row, immediates)
    faults_of_family = why_not(asked.gates, asked.request, target, at) if asked else []
    return faults_of_family or general_faults(row, target, immediates, at)


def is_legal(row: Row, target: Target) -> bool:
    """Whether `faults` has nothing against `row` as such; it takes a part of the time, for lists of many rows."""
    asked = asked_of(row)
    return (asked is None or suits(asked.gates, asked.request, target)) and suits(GATES, row, target)


def general_faults(
    row: Row, target: Target, immediates: Mapping[str, int], at: Location | None = None
) -> list[Diagnostic]:
    """What `target` lacks for `row`, and which of the `immediates` it does not take."""
    return [*why_not(GATES, row, target, at), *_immediate_faults(row, immediates, at)]


def _immediate_faults(row: Row, immediates: Mapping[str, int], at: Location | None) -> Iterator[Diagnostic]:
    for operand in row.immediates:
        number, legal = immediates.get(operand.name), operand.values or ()
        if number is not None and number not in legal:
            yield _IMMEDIATE_RULES.get(row.semantics.awaits, IMMEDIATE).diagnose(
                at=at,
                instruction=row.ptx,
                name=operand.name,
                given=number,
                legal=in_words(legal),
                nearest=min(legal, key=lambda value: abs(value - number)),
            )


def in_words(values: Iterable[int]) -> str:
    """Legal values for people: `24 to 256 by 8`, or each of them where they are not such a run."""
    run = sorted(values)
    steps = {later - value for value, later in pairwise(run)}
    if len(run) > 2 and len(steps) == 1:
        by = f" by {steps.pop()}" if steps != {1} else ""
        return f"{run[0]} to {run[-1]}{by}"
    return " or ".join(str(value) for value in run)


def check_names(row: Row, names: Collection[str]) -> None:
    """Raises instruction.operands unless `names` are the operands that `row` reads, by name."""
    wanted = [operand.name for operand in row.operands if operand.role is not Role.OUTPUT or operand.tied]
    if set(wanted) != set(names):
        OPERANDS.fail(instruction=row.ptx, wanted=", ".join(wanted) or "nothing", given=", ".join(names) or "nothing")


def check_registers(row: Row, operand: RowOperand, registers: int) -> None:
    """Raises instruction.operands unless `operand` has as many registers as were given."""
    if registers != operand.count:
        said = f"{operand.count} register(s) of {operand.name}"
        OPERANDS.fail(instruction=row.ptx, wanted=said, given=f"{registers}")


Constants = Mapping[str, int]
"""The operands of an instruction that are constants, by name."""
Check = Callable[[Row, str, Constants], object]


def _each(check: Callable[[int], object]) -> Check:
    return lambda _row, name, constants: check(constants[name])


def _read_bytes(row: Row, name: str, constants: Constants) -> None:
    size = row.axes["size"]
    assert isinstance(size, int)
    check_read_bytes(constants[name], size)


def _policy_range(_row: Row, _name: str, constants: Constants) -> None:
    if "primary_bytes" in constants and "total_bytes" in constants:
        check_policy_range(constants["primary_bytes"], constants["total_bytes"])


_CHECKS: Mapping[str, Check] = {
    "mbarrier.count": _each(check_arrival_count),
    "mbarrier.expect-tx": _each(check_transaction_count),
    "mbarrier.parity": _each(check_parity),
    "tma.bulk-size": _each(check_bulk_size),
    "barrier.id": _each(check_barrier_id),
    "barrier.threads": _each(check_barrier_threads),
    "nanosleep.range": _each(check_sleep),
    "async-copy.read-bytes": _read_bytes,
    "cache.policy": _each(check_policy),
    "cache.cleared": _each(lambda size: check_cleared(size, CLEARED_UNIT)),
    "cache.policy-range": _policy_range,
    "tcgen05.columns": _each(check_columns),
}
"""By id of the rule that an operand of a row names: what raises it for a number that is not legal."""


@cache
def checked_operands(row: Row) -> tuple[str, ...]:
    """The operands whose numbers have a rule."""
    return tuple(operand.name for operand in row.operands if operand.rule in _CHECKS)


def check_number(row: Row, name: str, number: int, others: Constants) -> None:
    """Raises the rule of operand `name` if it must not be `number`; `others` are the other constant operands."""
    _CHECKS[row.operand(name).rule](row, name, {**others, name: number})


def constants(instr: MachineInstr) -> Iterator[tuple[str, int]]:
    """The operands that have a rule of their own and are constants, with their values."""
    if instr.row is None:
        return
    for name in checked_operands(instr.row):
        text = instr.operands.get(name, "")
        if text.removeprefix("-").isdigit():
            yield name, int(text)


def constant_faults(instr: MachineInstr, target: Target) -> Iterator[Diagnostic]:  # noqa: ARG001
    """What is wrong with the constants of an instruction, by the rules of its operands."""
    known = dict(constants(instr))
    for name, number in known.items():
        assert instr.row is not None
        try:
            check_number(instr.row, name, number, known)
        except DiagnosticError as error:
            yield from (replace(diagnostic, location=instr.location) for diagnostic in error.diagnostics)
