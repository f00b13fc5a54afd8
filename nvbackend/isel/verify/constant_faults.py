"""Operands in registers whose value is a constant, on the machine form: by the rules that the builder's calls keep."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache

from nvbackend.diagnostics import Diagnostic, DiagnosticError
from nvbackend.intrinsics.row.row import Row
from nvbackend.isel.machine.function import MachineInstr
from nvbackend.isel.operands.memory import (
    CLEARED_UNIT,
    check_cleared,
    check_copy_policy,
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
from nvbackend.isel.operands.tensor_memory import check_columns
from nvbackend.isel.target.target import Target

Constants = Mapping[str, int]
"""The operands of an instruction that are constants, by name."""
Check = Callable[[Row, str, Constants], object]


def _each(check: Callable[[int], object]) -> Check:
    return lambda _row, name, given: check(given[name])


def _read_bytes(row: Row, name: str, given: Constants) -> None:
    size = row.axes["size"]
    assert isinstance(size, int)
    check_read_bytes(given[name], size)


def _policy_range(_row: Row, _name: str, given: Constants) -> None:
    if "primary_bytes" in given and "total_bytes" in given:
        check_policy_range(given["primary_bytes"], given["total_bytes"])


_CHECKS: Mapping[str, Check] = {
    "mbarrier.count": _each(check_arrival_count),
    "mbarrier.expect-tx": _each(check_transaction_count),
    "mbarrier.parity": _each(check_parity),
    "tma.bulk-size": _each(check_bulk_size),
    "barrier.id": _each(check_barrier_id),
    "barrier.threads": _each(check_barrier_threads),
    "nanosleep.range": _each(check_sleep),
    "async-copy.read-bytes": _read_bytes,
    "async-copy.policy": _each(check_copy_policy),
    "cache.cleared": _each(lambda size: check_cleared(size, CLEARED_UNIT)),
    "cache.policy-range": _policy_range,
    "tcgen05.columns": _each(check_columns),
}
"""By id of the rule that an operand of a row names: what raises it for a number that is not legal."""


@cache
def checked_operands(row: Row) -> tuple[str, ...]:
    """The operands whose numbers have a rule."""
    return tuple(one.name for one in row.operands if one.rule in _CHECKS)


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
    given = dict(constants(instr))
    for name, number in given.items():
        assert instr.row is not None
        try:
            check_number(instr.row, name, number, given)
        except DiagnosticError as error:
            yield from (replace(found, location=instr.location) for found in error.diagnostics)
