"""What an instruction is given, against what its row takes: number, LLVM type and owner of every operand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from llvmlite import ir

from nvbackend.builder.lower.lowering import Operands
from nvbackend.builder.scopes import rules
from nvbackend.diagnostics import Diagnostic, WrongKind, printed, raise_all, with_article
from nvbackend.intrinsics.row.row import Operand, RegisterClass, Role, Row

_REACHABLE = {
    space: {space, RegisterClass.GENERIC.addrspace} for space in {one.addrspace for one in RegisterClass} - {None}
}
"""The address spaces whose pointers can be one of a space: its own, and generic ones, which are converted."""
_REACHABLE[RegisterClass.SHARED_CLUSTER.addrspace].add(RegisterClass.SHARED.addrspace)

_PLACES = {
    RegisterClass.SHARED: "shared memory",
    RegisterClass.SHARED_CLUSTER: "shared memory",
    RegisterClass.GLOBAL: "global memory",
    RegisterClass.TMEM: "tensor memory",
}
_INTEGER_BITS = {f"i{bits}": bits for bits in (1, 16, 32, 64)}


def check_operands(function: ir.Function, row: Row, operands: Mapping[str, object]) -> None:
    """Raises machine.operand for everything that is missing, unknown, or of another number or type than `row` takes.

    Raises value.kernel for a register of another function than `function`.
    """
    wanted = {one.name: one for one in row.operands if one.role is not Role.OUTPUT or one.tied}
    found = [
        _diagnose(row, name, "it has no operand of that name", operands[name])
        for name in operands
        if name not in wanted
    ]
    for name, operand in wanted.items():
        if name not in operands:
            found.append(_diagnose(row, name, "it is missing", None))
        else:
            found += _faults(function, row, operand, operands[name])
    raise_all(found)


def _faults(function: ir.Function, row: Row, operand: Operand, given: object) -> Iterator[Diagnostic]:
    if type(given) is int:
        bits = _INTEGER_BITS.get(operand.register.llvm)
        if operand.role is not Role.IMMEDIATE and (bits is None or not -(1 << bits - 1) <= given < 1 << bits):
            yield _diagnose(row, operand.name, f"it takes {_described(operand)}, which holds no such number", given)
        return
    if isinstance(given, bool):
        yield _diagnose(row, operand.name, "it takes an integer, not a truth value", given)
        return
    if operand.role is Role.IMMEDIATE:
        # Of a call that takes the number as an argument of its own, the boundary names that argument instead.
        raise WrongKind(
            _diagnose(row, operand.name, f"it takes an integer, not {with_article(type(given).__name__)}", given)
        )
    values = [given] if isinstance(given, ir.Value) else given
    if not isinstance(values, (list, tuple)) or not all(isinstance(value, ir.Value) for value in values):
        yield _diagnose(row, operand.name, f"it takes {_described(operand)}", given)
        return
    kinds = {id(value.type): value for value in values}  # LLVM's types are few objects
    strange = next((value for value in kinds.values() if not _fits(value.type, operand.register)), None)
    if len(values) != operand.count or strange is not None:
        shown = _counted(len(values), str((strange if strange is not None else values[0]).type)) if values else "none"
        yield _diagnose(row, operand.name, f"it takes {_described(operand)}", shown)
    for value in values:
        owner = owner_of(value)
        if owner is not None and owner is not function:
            yield rules.FOREIGN_VALUE.diagnose(owner=owner.name, user=function.name)
            return


def _fits(kind: ir.Type, register: RegisterClass) -> bool:
    if isinstance(kind, ir.PointerType):
        return kind.addrspace in _REACHABLE.get(register.addrspace, ())
    text = str(kind)
    return text in (register.llvm, register.intrinsic) or (register is RegisterClass.B16 and text in ("half", "bfloat"))


def values_of(operands: Mapping[str, object]) -> Iterator[ir.Value]:
    """The LLVM values among operands."""
    for given in operands.values():
        for one in given if isinstance(given, (list, tuple)) else (given,):
            if isinstance(one, ir.Value):
                yield one


def owner_of(value: ir.Value) -> ir.Function | None:
    """The function that a value belongs to; None for constants."""
    parent = getattr(value, "parent", None)
    if isinstance(parent, ir.Block):
        return parent.parent
    return parent if isinstance(parent, ir.Function) else None


def _described(operand: Operand) -> str:
    place = _PLACES.get(operand.register)
    if place is not None and operand.count == 1:
        return f"an address of {place}, which is a value of LLVM's type {operand.register.llvm}"
    return _counted(operand.count, operand.register.llvm)


def _counted(count: int, llvm: str) -> str:
    return f"a value of LLVM's type {llvm}" if count == 1 else f"{count} values of LLVM's type {llvm}"


def _diagnose(row: Row, name: str, problem: str, given: object) -> Diagnostic:
    shown = given if isinstance(given, str) else "nothing" if given is None else printed(given)
    return rules.OPERAND.diagnose(instruction=row.ptx, operand=name, problem=problem, given=shown)


def registers_of(row: Row, operands: Operands, results: Operands) -> Iterator[tuple[str, Sequence[ir.Value | int]]]:
    """Every operand in registers that is not empty, with its values."""
    for operand in row.operands:
        if operand.role is Role.IMMEDIATE:
            continue
        given = results[operand.name] if operand.role is Role.OUTPUT else operands[operand.name]
        values = (given,) if isinstance(given, (ir.Value, int)) else given
        if values:
            yield operand.name, values


def shown(values: Sequence[ir.Value | int]) -> str:
    """What an operand is called in the printed machine form: `%first..last` for a block of registers."""
    first = reference(values[0])
    return first if len(values) == 1 else f"{first}..{reference(values[-1])}"


def reference(value: ir.Value | int) -> str:
    """What a register is called in the IR, or its number."""
    return str(value) if isinstance(value, int) else value.get_reference()
