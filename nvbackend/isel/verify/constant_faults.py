"""Operands in registers whose value is a constant, on the machine form: by the rules that the builder's calls keep."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from nvbackend.diagnostics import Diagnostic, DiagnosticError
from nvbackend.intrinsics.copy import tma_parts
from nvbackend.intrinsics.mma import tcgen05
from nvbackend.intrinsics.row.row import Row
from nvbackend.isel.machine.function import MachineInstr
from nvbackend.isel.select import family_rules
from nvbackend.isel.select.memory_rules import (
    CLEARED_UNIT,
    check_cleared,
    check_copy_policy,
    check_policy_range,
    check_read_bytes,
    check_sleep,
)
from nvbackend.isel.select.tcgen05.memory_rules import check_columns
from nvbackend.isel.target.target import Target

Constants = Mapping[str, int]
"""The operands of an instruction that are constants, by name."""
Check = Callable[[Row, Constants], object]


def _each(name: str, check: Callable[[int], object]) -> Check:
    return lambda _, given: check(given[name]) if name in given else None


def _read_bytes(row: Row, given: Constants) -> None:
    size = row.axes["size"]
    assert isinstance(size, int)
    check_read_bytes(given["bytes"], size)


def _policy_range(_: Row, given: Constants) -> None:
    if "primary_bytes" in given and "total_bytes" in given:
        check_policy_range(given["primary_bytes"], given["total_bytes"])


_CHECKS: Mapping[str, Mapping[str, Check]] = {
    "mbarrier": {
        "count": _each("count", family_rules.check_arrival_count),
        "bytes": _each("bytes", family_rules.check_transaction_count),
        "parity": _each("parity", family_rules.check_parity),
    },
    tma_parts.FAMILY: {tma_parts.BYTES.name: _each(tma_parts.BYTES.name, family_rules.check_bulk_size)},
    "sync": {
        "id": _each("id", family_rules.check_barrier_id),
        "threads": _each("threads", family_rules.check_barrier_threads),
        "nanoseconds": _each("nanoseconds", check_sleep),
    },
    "cp_async": {"bytes": _read_bytes, "cache_policy": _each("cache_policy", check_copy_policy)},
    "cache_control": {
        "bytes": _each("bytes", lambda size: check_cleared(size, CLEARED_UNIT)),
        "primary_bytes": _policy_range,
        "total_bytes": lambda _row, _given: None,
    },
    tcgen05.FAMILY: {"columns": _each("columns", check_columns)},
}
"""By family and name of the operand: what raises for a value that is not legal."""


def checked_operands(row: Row) -> tuple[str, ...]:
    """The operands in registers whose numbers have a rule."""
    return tuple(name for name in _CHECKS.get(row.family, ()) if row.has_operand(name))


def check_number(row: Row, name: str, number: int, others: Constants) -> None:
    """Raises the rule of operand `name` if it must not be `number`; `others` are the other constant operands."""
    _CHECKS[row.family][name](row, {**others, name: number})


def constants(instr: MachineInstr) -> Iterator[tuple[str, int]]:
    """The operands that have a rule of their own and are constants, with their values."""
    if instr.row is None:
        return
    for name in _CHECKS.get(instr.row.family, ()):
        text = instr.operands.get(name, "")
        if text.removeprefix("-").isdigit():
            yield name, int(text)


def constant_faults(instr: MachineInstr, target: Target) -> Iterator[Diagnostic]:  # noqa: ARG001
    """What is wrong with the constants of an instruction, by the rules of its family on what it is given."""
    given = dict(constants(instr))
    for name in given:
        assert instr.row is not None
        try:
            _CHECKS[instr.row.family][name](instr.row, given)
        except DiagnosticError as error:
            yield from (replace(found, location=instr.location) for found in error.diagnostics)
