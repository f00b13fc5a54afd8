"""Calls of rows: operands by name, each converted to the type that the row declares and checked by its rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

from llvmlite import ir

from nvbackend.builder.core.access import check_writable, policy_of
from nvbackend.builder.core.core import Core
from nvbackend.builder.core.memory import Address, own
from nvbackend.builder.lower.conversions import known_number, llvm_type
from nvbackend.builder.lower.lowering import Operands
from nvbackend.builder.scopes import rules
from nvbackend.builder.values.values import CLUSTER_SPACE, GLOBAL_SPACE, SHARED_SPACE, Operand, Value, as_value
from nvbackend.intrinsics.copy.cache_control import LINE_BYTES
from nvbackend.intrinsics.row.row import RegisterClass, Role, Row, RowOperand
from nvbackend.intrinsics.row.types import ElementType, u64
from nvbackend.isel.operands.memory import POLICY, SPACE, check_line
from nvbackend.isel.select.rows import check_names, check_number, check_registers, check_row, checked_operands

Given: TypeAlias = Operand | Address
Register: TypeAlias = "Given | ir.Value"
"""What a caller may pass for a register; an llvmlite value is used as it is."""

_PLACED = (RegisterClass.SHARED, RegisterClass.SHARED_CLUSTER, RegisterClass.GLOBAL)
"""Registers that hold an address of a state space."""
MBARRIER_BYTES = 8


class _Space(NamedTuple):
    """A state space of operands, by the spaces of the addresses that it takes."""

    name: str
    spaces: tuple[int, ...]
    advice: str


_SHARED = "pass one of k.shared(...), or copy there first"
_GLOBAL = "pass a pointer that the kernel takes, or what is reached from one"
_SPACES = {
    RegisterClass.SHARED: _Space("shared", (SHARED_SPACE, CLUSTER_SPACE), _SHARED),
    RegisterClass.SHARED_CLUSTER: _Space("shared", (SHARED_SPACE, CLUSTER_SPACE), _SHARED),
    RegisterClass.GLOBAL: _Space("global", (GLOBAL_SPACE,), _GLOBAL),
    RegisterClass.GENERIC: _Space("global", (GLOBAL_SPACE,), _GLOBAL),
}
"""By the register of an operand. A generic address is a number, k.generic_address(...): a global one is its own."""


def result(
    k: Core, row: Row, element: ElementType | None = None, /, **operands: Register | Sequence[Register] | None
) -> Value:
    """The first output of `row`, as `element` or the type that the row declares: see `issue`."""
    first = row.outputs[0]
    return k.wrap(issue(k, row, **operands)[first.name][0], element or first.type)


def issue(k: Core, row: Row, /, **operands: Register | Sequence[Register] | None) -> dict[str, list[ir.Value]]:
    """Emit `row` with `operands` by name, None for those that it does not have; its outputs by name.

    Raises value.type, value.constant and value.kernel for what an operand does not take, the rule of an operand for a
    number or a place that breaks it, memory.misaligned, and what `Core.emit` raises.
    """
    return k.emit(row, converted(k, row, operands))


def computed(k: Core, row: Row, /, **operands: Register | Sequence[Register]) -> Value:
    """The first output of `row`, which only computes: see `all_computed`."""
    return all_computed(k, row, **operands)[0]


def all_computed(k: Core, row: Row, /, **operands: Register | Sequence[Register]) -> list[Value]:
    """The outputs of `row`, which only computes: the machine form does not list it, as it lists no operator.

    Raises as `issue` does.
    """
    k.check_live()
    registers = converted(k, row, operands)
    check_row(row, k.target, {name: number for name, number in registers.items() if isinstance(number, int)})
    lowered = k.lower(row, registers)
    values = []
    for output in row.outputs:
        value, kind = lowered[output.name][0], llvm_type(output.type)
        values.append(k.wrap(value if value.type == kind else k.llvm.bitcast(value, kind), output.type))
    return values


def converted(k: Core, row: Row, operands: Mapping[str, Register | Sequence[Register] | None]) -> Operands:
    """`operands` as the registers that `row` takes, in the order in which they are given."""
    registers = {name: _registers(k, row, name, operand) for name, operand in operands.items() if operand is not None}
    if (names := checked_operands(row)) and not k.execution.is_unreached():
        constants = {
            name: number for name in registers if isinstance(number := _number(row, name, registers[name]), int)
        }
        for name in names:
            if name in constants:
                check_number(row, name, constants[name], constants)
    return registers


def _registers(k: Core, row: Row, name: str, values: Register | Sequence[Register]) -> Any:
    operand = None if isinstance(values, ir.Value) else row._by_name.get(name)
    if operand is None or operand.role is Role.IMMEDIATE:
        return values  # `emit` refuses what the row does not have
    if isinstance(values, (list, tuple, Sequence)) and not isinstance(values, str):
        return [_register(k, row, operand, value) for value in values]
    return _register(k, row, operand, values)


def _register(k: Core, row: Row, operand: RowOperand, value: Register) -> ir.Value:
    if isinstance(value, ir.Value):
        return value
    if operand.rule == POLICY.id and not isinstance(value, Address):
        return policy_of(k, value).ir
    if operand.register not in _PLACED and not isinstance(value, Address):
        return as_value(k, value, operand.type).ir
    address = own(k, cast("Address", value))  # the boundary names the wrong argument
    _check_space(row, operand, address)
    if (use := row.semantics.accesses(operand.name)) is not None and use.writes:
        check_writable(address, f"{row.ptx} writes")
    if operand.rule:
        _PLACE_RULES[operand.rule](address, row.ptx)
    elif operand.align > 1:
        address._check_aligned(operand.align, row.ptx)
    return address.bytes.ir


def _check_space(row: Row, operand: RowOperand, address: Address) -> None:
    """Raises memory.space for an address of a state space that the operand does not take."""
    wanted = _SPACES.get(operand.register)
    if wanted is None or operand.rule in _PLACE_RULES or address.space in wanted.spaces:
        return
    to_and_from = {"destination", "source"} <= {each.name for each in row.operands}
    advice = f"{wanted.advice}; the destination comes first" if to_and_from else wanted.advice
    SPACE.fail(operand=operand.name, instruction=row.ptx, wanted=wanted.name, given=address, advice=advice)


def _number(row: Row, name: str, register: object) -> object:
    return known_number(register, row.operand(name).type) if isinstance(register, ir.Constant) else None


def mbarrier_address(k: Core, barrier: Address) -> Value:
    """The shared address of an mbarrier. Raises mbarrier.address if it cannot be one."""
    _check_barrier(barrier, "")
    return own(k, barrier).bytes


def _check_barrier(address: Address, instruction: str) -> None:  # noqa: ARG001
    if address.space == GLOBAL_SPACE or address.align % MBARRIER_BYTES:
        rules.MBARRIER_ADDRESS.fail(given=address, bytes=MBARRIER_BYTES)


def _check_line(address: Address, instruction: str) -> None:
    check_line(instruction, address.align, address._how_to_align(LINE_BYTES))


_PLACE_RULES: Mapping[str, Callable[[Address, str], None]] = {
    "mbarrier.address": _check_barrier,
    "cache.line": _check_line,
}
"""The check for each rule on where an operand lies, by the rule's id; it takes the address and the instruction."""


def generic_address(k: Core, address: Address) -> Value:
    """The generic address (u64) of `address`, which instructions without a state space take. PTX ISA 6.4.1.1."""
    address = own(k, address)
    if address.space == GLOBAL_SPACE:
        return address.bytes.bitcast(u64)
    shared = k.llvm.inttoptr(address.bytes.ir, ir.PointerType(addrspace=address.space))
    generic = k.llvm.ptrtoint(k.llvm.addrspacecast(shared, ir.PointerType()), ir.IntType(64))
    if address.space == SHARED_SPACE and (place := k.places.of_address(address.bytes.ir)) is not None:
        k.places.addresses[generic] = place
    return k.wrap(generic, u64)


def emit_row(
    k: Core, row: Row, operands: Mapping[str, Given | Sequence[Given]], extents: Mapping[str, int] | None
) -> dict[str, list[Value]]:
    """Emit `row` with `operands` by name: see `k.instruction`. `extents` are as `Core.emit` has them."""
    check_names(row, operands)
    registers = {
        name: operand if row.operand(name).role is Role.IMMEDIATE else _unsigned(k, row, row.operand(name), operand)
        for name, operand in operands.items()
    }
    return {
        name: [k.wrap(value, row.operand(name).register.element) for value in values]
        for name, values in k.emit(row, converted(k, row, registers), extents=extents).items()
    }


def _unsigned(k: Core, row: Row, operand: RowOperand, values: Given | Sequence[Given]) -> Register | list[Register]:
    """`values` as registers whose integers are unsigned."""
    parts = values if isinstance(values, Sequence) else (values,)
    check_registers(row, operand, len(parts))
    registers = [_unsigned_register(k, operand.register, part) for part in parts]
    return registers if operand.count > 1 else registers[0]


def _unsigned_register(k: Core, register: RegisterClass, value: Given) -> Register:
    if isinstance(value, Address):
        return generic_address(k, value).ir if register.llvm == "i64" and value.space != GLOBAL_SPACE else value
    return as_value(k, value, register.element).ir
