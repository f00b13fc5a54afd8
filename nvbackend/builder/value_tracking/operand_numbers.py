"""The numbers that an instruction is given in registers, as far as they are known before LLVM folds them.

LLVM writes what it knows to be a number as an immediate, and ptxas refuses some that it takes in a register. So a
number that is certainly wrong is refused here, and one that may be is given in a register that LLVM cannot see into.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from llvmlite import ir

from nvbackend.builder.lower.lowering import Operands
from nvbackend.builder.value_tracking.execution import Execution
from nvbackend.builder.value_tracking.expressions.bits import Bits
from nvbackend.diagnostics import Diagnostic, DiagnosticError, raise_all
from nvbackend.intrinsics.row.row import Intrinsic, Row
from nvbackend.isel.select.rows import check_number, checked_operands

_MOST_CANDIDATES = 64
"""Numbers that a value may be, beyond which it may be any."""


class OperandNumbers:
    """The numbers of the run-time operands of one function's instructions."""

    def __init__(self, execution: Execution, bits: Bits) -> None:
        self._execution = execution
        self._bits = bits

    def check(self, row: Row, operands: Operands) -> None:
        """Raises the rule of an operand whose run-time value certainly breaks it, in some thread that is here."""
        checked = checked_operands(row)
        if not checked:
            return
        constants = {name: operand.constant for name, operand in operands.items() if isinstance(operand, ir.Constant)}
        others = {name: number for name, number in constants.items() if type(number) is int}
        for name in checked:
            value = operands.get(name)
            if not isinstance(value, ir.Instruction):
                continue
            certain = self._certain(value)
            for number in certain:
                raise_all(_faults(row, name, number, value, others))
            if not certain and (candidates := self._candidates(value)):
                every = [_faults(row, name, number, value, others) for number in candidates]
                raise_all(every[0] if all(every) else ())
            if not certain and not self._may_be_legal(value, row.operand(name).legal):
                raise_all(_faults(row, name, self._bits.known(value)[1], value, others))

    def in_registers(self, builder: ir.IRBuilder, row: Row, operands: Operands) -> Operands:
        """`operands`, those that LLVM could fold to a number that ptxas refuses copied by an asm that it keeps.

        Asm takes registers alone, so what is lowered to it needs no copy.
        """
        if not isinstance(row.lowering, Intrinsic):
            return operands
        registers = dict(operands)
        for operand in row.inputs:
            value = operands.get(operand.name)
            if operand.legal is not None and isinstance(value, ir.Value) and not isinstance(value, ir.Constant):
                numbers = self._certain(value) or self._candidates(value)
                if not numbers or any(number not in operand.legal for number in numbers):
                    registers[operand.name] = _copied(builder, value)
        return registers

    def _certain(self, value: ir.Value) -> tuple[int, ...]:
        """The distinct numbers of an integer in the threads here; empty if unknown."""
        return self._execution.values_here(value)

    def _candidates(self, value: ir.Value) -> tuple[int, ...]:
        """All numbers that an integer may be, lowest first; empty if there are too many."""
        counted = self._execution.counted(value)
        if counted is not None:
            first, last = counted
            return tuple(range(first, last + 1)) if last - first < _MOST_CANDIDATES else ()
        mask, number = self._bits.known(value)
        unknown = [1 << bit for bit in range(value.type.width) if not mask >> bit & 1]
        if 1 << len(unknown) > _MOST_CANDIDATES:
            return ()
        subsets = itertools.chain.from_iterable(
            itertools.combinations(unknown, count) for count in range(len(unknown) + 1)
        )
        return tuple(sorted(number + sum(some) for some in subsets))

    def _may_be_legal(self, value: ir.Value, legal: Iterable[int] | None) -> bool:
        mask, number = self._bits.known(value)
        return legal is None or any(allowed & mask == number for allowed in legal)


def _faults(row: Row, name: str, number: int, value: ir.Value, others: dict[str, int]) -> tuple[Diagnostic, ...]:
    """What is wrong with a number of the bits of `value`, read with a sign and without: nothing where one is right."""
    whole = 1 << value.type.width
    faults: tuple[Diagnostic, ...] = ()
    for reading in dict.fromkeys((number % whole, (number + whole // 2) % whole - whole // 2)):
        try:
            check_number(row, name, reading, others)
        except DiagnosticError as error:
            faults = error.diagnostics
        else:
            return ()
    return faults


def _copied(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """The same number in another register: LLVM does not look into asm."""
    kind = ir.FunctionType(value.type, [value.type])
    return builder.call(ir.InlineAsm(kind, "mov.b32 $0, $1;", "=r,r"), [value])
