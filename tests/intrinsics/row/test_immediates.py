"""Immediates: what a row says is legal is assembled, and everything else is refused before LLVM sees it.

LLVM ends its process on a number that does not fit its type, and ptxas cuts off what does not fit the instruction.
"""

from __future__ import annotations

import functools
import itertools

import pytest

import nvbackend as nvb
from nvbackend.intrinsics.catalogue import rows
from nvbackend.intrinsics.row.row import RegisterClass, Role, Row, RowOperand
from nvbackend.isel.target.target import Target
from tests.support.ptxas import assemble
from tests.support.row_bench import Bench
from tests.support.row_calls import held
from tests.support.rows import compile_batch, joined, kernel_text, newest_target

Case = tuple[Row, RowOperand]
ROWS_A_KERNEL = 100


@functools.cache
def cases() -> tuple[Case, ...]:
    """Every immediate of every row."""
    return tuple((row, operand) for row in rows() for operand in row.immediates)


@functools.cache
def kinds() -> tuple[Case, ...]:
    """One of those that differ in the operation, its lowering and its gate, or in their legal values."""
    found: dict[object, Case] = {}
    for row, operand in cases():
        key = (row.family, row.opcode, type(row.lowering), row.requires, operand.name, operand.values)
        found.setdefault(key, (row, operand))
    return tuple(found.values())


def illegal(operand: RowOperand) -> list[object]:
    """Beside the legal values, beyond every width, and of other kinds."""
    assert operand.values is not None
    first = operand.values[0]
    beyond = [min(operand.values) - 1, max(operand.values) + 1, -(2**63) - 1, 2**32, 2**64, 10**5000]
    return [*beyond, bool(first), float(first), str(first), [first], None]


def accepted(every: tuple[Case, ...]) -> list[str]:
    """The illegal values that `KernelBuilder.instruction` does not refuse at this line by a Diagnostic."""
    found: list[str] = []
    for target, group in itertools.groupby(every, key=lambda case: newest_target(case[0])):
        for place, (row, operand) in enumerate(group):
            if place % ROWS_A_KERNEL == 0:
                bench = Bench(target)
            given = {
                one.name: one.values[0] if one.values else held(bench, row, one.name)
                for one in row.operands
                if one.role is not Role.OUTPUT or one.tied
            }
            for value in illegal(operand):
                with pytest.raises(nvb.DiagnosticError) as caught:
                    bench.k.instruction(row, **{**given, operand.name: value})
                location = caught.value.diagnostics[0].location
                if location is None or location.file != __file__:
                    found.append(f"{row.ptx}, {operand.name}: {caught.value}")
    return found


def test_illegal_values_are_refused_by_a_diagnostic() -> None:
    assert len(kinds()) > 50
    assert accepted(kinds()) == []


@pytest.mark.exhaustive
def test_illegal_values_of_every_row_are_refused_by_a_diagnostic() -> None:
    assert accepted(cases()) == []


def test_legal_values_fit_the_registers_they_stand_for() -> None:
    """LLVM ends its process on a constant that needs more bits than its type."""
    bits = {RegisterClass.B16: 16, RegisterClass.B32: 32, RegisterClass.B64: 64}
    wide = [
        f"{row.ptx}, {operand.name}"
        for row, operand in cases()
        if not all(
            -(1 << bits[operand.register] - 1) <= value < 1 << bits[operand.register] - 1
            for value in operand.values or ()
        )
    ]
    assert wide == []


def test_only_immediates_have_legal_values_and_all_of_them_do() -> None:
    with pytest.raises(nvb.DiagnosticError, match="half_split"):
        RowOperand("half_split", RegisterClass.B64, Role.IMMEDIATE)
    with pytest.raises(nvb.DiagnosticError, match="word"):
        RowOperand("word", RegisterClass.B32, values=(0, 1))


def _extremes() -> list[tuple[Target, str]]:
    """The kernels of the lowest and the highest legal value of each kind of immediate, by target."""
    found = []
    for row, operand in kinds():
        assert operand.values is not None
        for value in dict.fromkeys((min(operand.values), max(operand.values))):
            text = kernel_text(row, f"kernel{len(found)}", {operand.name: value})
            found.append((newest_target(row), text))
    return sorted(found, key=lambda pair: pair[0].name)


def test_the_lowest_and_the_highest_legal_values_are_assembled() -> None:
    extremes = _extremes()
    compiled = compile_batch([(text, target) for target, text in extremes])
    assert [one.error for one in compiled if one.error] == []
    pairs = zip((target.name for target, _ in extremes), compiled, strict=True)
    for target, group in itertools.groupby(pairs, key=lambda pair: pair[0]):
        fine, said = assemble(joined([one.ptx for _, one in group]), target)
        assert fine, said
