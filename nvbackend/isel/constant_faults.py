"""Operands in registers whose value is a constant, on the machine form: by the rules that the builder's calls keep."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from nvbackend.diagnostics import Diagnostic, DiagnosticError
from nvbackend.intrinsics import tma_parts
from nvbackend.isel.families import family_rules
from nvbackend.isel.families.memory_rules import check_sleep
from nvbackend.isel.machine import MachineInstr
from nvbackend.isel.target import Target

_CHECKS: Mapping[str, Mapping[str, Callable[[int], object]]] = {
    "mbarrier": {
        "count": family_rules.check_arrival_count,
        "bytes": family_rules.check_transaction_count,
        "parity": family_rules.check_parity,
    },
    tma_parts.FAMILY: {tma_parts.BYTES.name: family_rules.check_bulk_size},
    "sync": {
        "id": family_rules.check_barrier_id,
        "threads": family_rules.check_barrier_threads,
        "nanoseconds": check_sleep,
    },
}
"""By family and name of the operand: what raises for a value that is not legal."""


def constants(instr: MachineInstr) -> Iterator[tuple[str, int]]:
    """The operands that have a rule of their own and are constants, with their values."""
    if instr.row is None:
        return
    for name in _CHECKS.get(instr.row.family, ()):
        text = instr.operands.get(name, "")
        if text.removeprefix("-").isdigit():
            yield name, int(text)


def constant_faults(instr: MachineInstr, target: Target) -> Iterator[Diagnostic]:  # noqa: ARG001
    """What is wrong with the constants of an instruction (mbarrier.*, tma.bulk-size, barrier.*, nanosleep.range)."""
    for name, value in constants(instr):
        assert instr.row is not None
        try:
            _CHECKS[instr.row.family][name](value)
        except DiagnosticError as error:
            yield from (replace(found, location=instr.location) for found in error.diagnostics)
