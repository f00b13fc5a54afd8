"""Any row of the catalogue as a call, by the names of its operands: for spellings that have no call of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llvmlite import ir

from nvbackend.builder.core.core import Core
from nvbackend.builder.core.memory import Address
from nvbackend.builder.values.scaling import GLOBAL_SPACE
from nvbackend.builder.values.values import Operand, Value, as_value
from nvbackend.intrinsics.row.row import Operand as RowOperand
from nvbackend.intrinsics.row.row import RegisterClass, Role, Row
from nvbackend.intrinsics.row.types import ElementType, f32, f64, pred, u16, u32, u64
from nvbackend.isel.select.row_operands import check_names, check_registers

Given = Operand | Address
_TYPES: dict[str, ElementType] = {"i1": pred, "i16": u16, "i32": u32, "i64": u64, "float": f32, "double": f64}


def generic_address(k: Core, address: Address) -> Value:
    """The generic address (u64) of `address`, which instructions without a state space take. PTX ISA 6.4.1.1."""
    if address.space == GLOBAL_SPACE:
        return address.bytes.bitcast(u64)
    shared = k.llvm.inttoptr(address.bytes.ir, ir.PointerType(addrspace=address.space))
    return k.wrap(k.llvm.ptrtoint(k.llvm.addrspacecast(shared, ir.PointerType()), ir.IntType(64)), u64)


def emit_row(k: Core, row: Row, operands: Mapping[str, Given | Sequence[Given]]) -> dict[str, list[Value]]:
    """Emit `row` with `operands` by name: see `k.instruction`."""
    check_names(row, operands)
    given = {
        name: one if row.operand(name).role is Role.IMMEDIATE else _registers_of(k, row, row.operand(name), one)
        for name, one in operands.items()
    }
    results = k.emit(row, given)
    return {
        name: [k.wrap(value, _TYPES[row.operand(name).register.llvm]) for value in values]
        for name, values in results.items()
    }


def _registers_of(k: Core, row: Row, operand: RowOperand, given: Given | Sequence[Given]) -> list[ir.Value]:
    parts = given if isinstance(given, Sequence) else (given,)
    check_registers(row, operand, len(parts))
    kind = _TYPES[operand.register.llvm]
    return [_register_of(k, operand.register, kind, part).ir for part in parts]


def _register_of(k: Core, register: RegisterClass, kind: ElementType, given: Given) -> Value:
    if isinstance(given, Address):
        wide = register.llvm == "i64" and given.space != GLOBAL_SPACE
        return generic_address(k, given) if wide else given.bytes
    return as_value(k, given, kind)
