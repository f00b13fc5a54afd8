"""From a row and its operands to LLVM IR: checks, then an intrinsic or inline-asm call, typed from the row alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from llvmlite import ir
from llvmlite.ir.instructions import CallInstrAttributes, FastMathFlags

from nvbackend.builder.lower.live_builder import foreign_owner
from nvbackend.builder.lower.modules import struct_type
from nvbackend.builder.lower.pointers import pointer_to
from nvbackend.builder.lower.registers import Register, members
from nvbackend.builder.scopes import rules
from nvbackend.diagnostics import Diagnostic, WrongKind, printed, raise_all, with_article
from nvbackend.intrinsics.row.row import Asm, Effect, Intrinsic, RegisterClass, Role, Row, RowOperand

_REACHABLE = {
    space: {space, RegisterClass.GENERIC.addrspace}
    for space in {register.addrspace for register in RegisterClass} - {None}
}
"""The address spaces whose pointers each space accepts: its own, and generic ones, which are converted."""
_REACHABLE[RegisterClass.SHARED_CLUSTER.addrspace].add(RegisterClass.SHARED.addrspace)

_PLACES = {
    RegisterClass.SHARED: "shared memory",
    RegisterClass.SHARED_CLUSTER: "shared memory",
    RegisterClass.GLOBAL: "global memory",
    RegisterClass.TMEM: "tensor memory",
}
_FITTING = {
    register: {register.llvm, register.intrinsic, *(("half", "bfloat") if register is RegisterClass.B16 else ())}
    for register in RegisterClass
}
"""LLVM's types of the values that go into each register."""
_INTEGER_BITS = {f"i{bits}": bits for bits in (1, 16, 32, 64)}


def check_operands(function: ir.Function, row: Row, operands: Mapping[str, object]) -> None:
    """Raises machine.operand for operands that are missing or unknown, or differ from `row` in number or type.

    Raises value.kernel for a register of another function than `function`.
    """
    wanted = _wanted(row)
    if operands.keys() == wanted.keys():
        for name, operand in wanted.items():
            if not _is_right(function, operand, operands[name]):
                break
        else:
            return
    faults = [
        _diagnose(row, name, "it has no operand of that name", operands[name])
        for name in operands
        if name not in wanted
    ]
    for name, operand in wanted.items():
        if name not in operands:
            faults.append(_diagnose(row, name, "it is missing", None))
        else:
            faults += _faults(function, row, operand, operands[name])
    raise_all(faults)


@cache
def _wanted(row: Row) -> dict[str, RowOperand]:
    """What a call of `row` gives, by name."""
    return {operand.name: operand for operand in row.operands if operand.role is not Role.OUTPUT or operand.tied}


def _is_right(function: ir.Function, operand: RowOperand, value: object) -> bool:
    """Whether nothing is wrong with `value`, as far as that is quick to see."""
    if operand.role is Role.IMMEDIATE:
        return type(value) is int
    values = [value] if isinstance(value, ir.Value) else value
    if type(values) is not list or len(values) != operand.count:
        return False
    kind = None
    for each in values:
        if not isinstance(each, ir.Value):
            return False
        if each.type is not kind:  # LLVM's types are few objects
            kind = each.type
            if not _fits(kind, operand.register):
                return False
    return foreign_owner(function, values) is None


def _faults(function: ir.Function, row: Row, operand: RowOperand, operand_value: object) -> Iterator[Diagnostic]:
    if type(operand_value) is int:
        bits = _INTEGER_BITS.get(operand.register.llvm)
        if operand.role is not Role.IMMEDIATE and (bits is None or not -(1 << bits - 1) <= operand_value < 1 << bits):
            yield _diagnose(
                row, operand.name, f"it takes {_described(operand)}, which holds no such number", operand_value
            )
        return
    if isinstance(operand_value, bool):
        yield _diagnose(row, operand.name, "it takes an integer, not a truth value", operand_value)
        return
    if operand.role is Role.IMMEDIATE:
        # Of a call that takes the number as an argument of its own, the boundary names that argument instead.
        raise WrongKind(
            _diagnose(
                row,
                operand.name,
                f"it takes an integer, not {with_article(type(operand_value).__name__)}",
                operand_value,
            )
        )
    values = [operand_value] if isinstance(operand_value, ir.Value) else operand_value
    if not isinstance(values, (list, tuple)) or not all(isinstance(value, ir.Value) for value in values):
        yield _diagnose(row, operand.name, f"it takes {_described(operand)}", operand_value)
        return
    kinds = {id(value.type): value for value in values}  # LLVM's types are few objects
    strange = next((value for value in kinds.values() if not _fits(value.type, operand.register)), None)
    if len(values) != operand.count or strange is not None:
        shown = _counted(len(values), str((strange if strange is not None else values[0]).type)) if values else "none"
        yield _diagnose(row, operand.name, f"it takes {_described(operand)}", shown)
    if (owner := foreign_owner(function, values)) is not None:
        yield rules.FOREIGN_VALUE.diagnose(owner=owner.name, user=function.name)


def _fits(kind: ir.Type, register: RegisterClass) -> bool:
    if isinstance(kind, ir.PointerType):
        return kind.addrspace in _REACHABLE.get(register.addrspace, ())
    return str(kind) in _FITTING[register]


def single_registers(operands: Operands) -> Operands:
    """`operands`, of which a list of one register is that register."""
    return {
        name: operand[0] if isinstance(operand, (list, tuple)) and len(operand) == 1 else operand
        for name, operand in operands.items()
    }


def values_of(operands: Mapping[str, object]) -> Iterator[ir.Value]:
    """The LLVM values among operands."""
    for operand in operands.values():
        if isinstance(operand, (list, tuple)):
            yield from [value for value in operand if isinstance(value, ir.Value)]
        elif isinstance(operand, ir.Value):
            yield operand


def _described(operand: RowOperand) -> str:
    place = _PLACES.get(operand.register)
    if place is not None and operand.count == 1:
        return f"an address of {place}, which is a value of LLVM's type {operand.register.llvm}"
    return _counted(operand.count, operand.register.llvm)


def _counted(count: int, llvm: str) -> str:
    return f"a value of LLVM's type {llvm}" if count == 1 else f"{count} values of LLVM's type {llvm}"


def _diagnose(row: Row, name: str, problem: str, value: object) -> Diagnostic:
    shown = value if isinstance(value, str) else "nothing" if value is None else printed(value)
    return rules.OPERAND.diagnose(instruction=row.ptx, operand=name, problem=problem, given=shown)


def registers_of(row: Row, operands: Operands, results: Operands) -> Iterator[tuple[str, Sequence[ir.Value | int]]]:
    """Every non-empty register operand with its values."""
    for operand in row.operands:
        if operand.role is Role.IMMEDIATE:
            continue
        registers = results[operand.name] if operand.role is Role.OUTPUT else operands[operand.name]
        values = (registers,) if isinstance(registers, (ir.Value, int)) else registers
        if values:
            yield operand.name, values


def shown(values: Sequence[ir.Value | int]) -> str:
    """What an operand is called in the printed machine form: `%first..last` for a block of registers."""
    first = reference(values[0])
    return first if len(values) == 1 else f"{first}..{reference(values[-1])}"


def reference(value: ir.Value | int) -> str:
    """What a register is called in the IR, or its number."""
    return str(value) if isinstance(value, int) else value.get_reference()


Operands = Mapping[str, "ir.Value | int | Sequence[ir.Value]"]

SCALARS: dict[str, ir.Type] = {
    "i1": ir.IntType(1),
    "i16": ir.IntType(16),
    "i32": ir.IntType(32),
    "i64": ir.IntType(64),
    "float": ir.FloatType(),
    "double": ir.DoubleType(),
    "<2 x half>": ir.VectorType(ir.HalfType(), 2),
}


class NamedAsm:
    """Inline asm in place of an LLVM intrinsic. It keeps the intrinsic's name, by which the analyses know the call.

    To llvmlite it is a callee, as its own InlineAsm is.
    """

    def __init__(self, name: str, asm: ir.InlineAsm) -> None:
        self.name = name
        self.asm = asm
        self.type = asm.type
        self.function_type = asm.function_type

    def get_reference(self) -> str:
        """What the call names in the IR."""
        return str(self.asm.get_reference())

    def __str__(self) -> str:
        return str(self.asm)


class TypedCall(Register, ir.CallInstr):  # type: ignore[misc]
    """`call` with arguments of just the types that `callee` takes."""

    opname, tail, shown_as = "call", "", "CallInstr"

    def __init__(
        self, block: ir.Block, callee: Any, arguments: list[ir.Value], name: str, attributes: tuple[str, ...]
    ) -> None:
        self.parent, self.type = block, callee.function_type.return_type
        self.operands = [callee, *arguments]
        self._name = block.scope.register(name, deduplicate=True)
        self.cconv, self.fastmath = getattr(callee, "calling_convention", None), FastMathFlags()
        self.attributes = CallInstrAttributes(attributes)
        self.arg_attributes: dict[int, Any] = {}


class AsmCall(TypedCall):
    """`call` of asm, whose type was made of its arguments."""

    shown_as = ""


def lower(
    builder: ir.IRBuilder, row: Row, operands: Operands, name: str = "", *, in_asm: bool = False
) -> dict[str, list[ir.Value]]:
    """Emit `row` at `builder`'s place and return its outputs by operand name: all rows by inline asm if `in_asm`.

    `operands` gives every input, tied output and immediate by name: one value, or as many as the operand has
    registers. Shared addresses may be i32 or pointers; each lowering gets the form it takes.
    """
    results = _lowered(builder, row, operands, name, in_asm=in_asm)
    if not row.merges_with_neighbours:
        return results
    from nvbackend.builder.lower.neighbours import kept_apart

    return kept_apart(builder, results)


def _lowered(
    builder: ir.IRBuilder, row: Row, operands: Operands, name: str, *, in_asm: bool
) -> dict[str, list[ir.Value]]:
    if isinstance(row.lowering, Asm):
        return _lower_asm(builder, row, operands, name)
    if in_asm:
        from nvbackend.intrinsics.row.asm_form import asm_form

        return _lower_asm(builder, asm_form(row), operands, name, row.lowering.name)
    return _lower_intrinsic(builder, row, row.lowering, operands, name)


def _lower_asm(
    builder: ir.IRBuilder, row: Row, operands: Operands, name: str, intrinsic: str | None = None
) -> dict[str, list[ir.Value]]:
    arguments: list[ir.Value] = []
    for operand in row.inputs:
        arguments += [_as_scalar(builder, value, operand.register) for value in _values(operands, operand)]
    for operand in row.immediates:
        arguments += _immediates(operands, operand)
    for operand in row.outputs:
        if operand.tied:
            arguments += _values(operands, operand)
    result = _result_type(row, lambda members: struct_type(builder.module, members))
    function = ir.FunctionType(result, [argument.type for argument in arguments])
    asm = ir.InlineAsm(function, row.asm, row.constraints, side_effect=not row.is_pure)
    callee = asm if intrinsic is None else NamedAsm(intrinsic, asm)
    return _unpack(builder, row, _called(builder, AsmCall, callee, arguments, name, row))


def _lower_intrinsic(
    builder: ir.IRBuilder, row: Row, lowering: Intrinsic, operands: Operands, name: str
) -> dict[str, list[ir.Value]]:
    arguments: list[ir.Value] = []
    for argument in lowering.arguments:
        if isinstance(argument, str):
            operand = row._by_name[argument]
            values = [_as_argument(builder, value, operand.register) for value in _values(operands, operand)]
            arguments += [_as_vector(builder, values)] if lowering.vectors and len(values) > 1 else values
        else:
            arguments.append(ir.Constant(SCALARS[argument[0]], int(argument[1])))
    result = _result_type(row, ir.LiteralStructType, of_intrinsic=True)
    if lowering.vectors and isinstance(result, ir.LiteralStructType):
        result = ir.VectorType(result.elements[0], len(result.elements))
    types = [argument.type for argument in arguments]
    function = declare(builder.module, lowering.name, result, types)
    if all(kind is taken or kind == taken for kind, taken in zip(types, function.function_type.args, strict=True)):
        return _unpack(builder, row, _called(builder, TypedCall, function, arguments, name, row))
    return _unpack(builder, row, builder.call(function, arguments, name=name, attrs=_attributes(row)))


def _called(
    builder: ir.IRBuilder, kind: type[TypedCall], callee: Any, arguments: list[ir.Value], name: str, row: Row
) -> ir.Value:
    """The call of what takes arguments of just these types."""
    call = kind(builder.block, callee, arguments, name, _attributes(row))
    builder._insert(call)
    return call


def _as_vector(builder: ir.IRBuilder, values: Sequence[ir.Value]) -> ir.Value:
    vector: ir.Value = ir.Constant(ir.VectorType(values[0].type, len(values)), ir.Undefined)
    for index, value in enumerate(values):
        vector = builder.insert_element(vector, value, ir.Constant(SCALARS["i32"], index))
    return vector


@cache
def _attributes(row: Row) -> tuple[str, ...]:
    """Attributes of the call: LLVM declares mma and wmma intrinsics as if each thread ran them alone."""
    return ("convergent",) if Effect.CONVERGENT in row.effects else ()


def declare(module: ir.Module, name: str, result: ir.Type, arguments: Sequence[ir.Type]) -> ir.Function:
    """The function `name` of `module`, declared on first use."""
    function = module.globals.get(name)
    if function is None:
        function = ir.Function(module, ir.FunctionType(result, arguments), name)
    return function


def _values(operands: Operands, operand: RowOperand) -> list[ir.Value]:
    value = operands[operand.name]
    if isinstance(value, int):
        value = ir.Constant(SCALARS[operand.register.llvm], value)
    values = [value] if isinstance(value, ir.Value) else list(value)
    if len(values) != operand.count:
        raise ValueError(f"operand {operand.name} takes {operand.count} registers, not {len(values)}")
    return values


def _immediates(operands: Operands, operand: RowOperand) -> list[ir.Value]:
    """An immediate of asm: of 64 bits where 32 would print another number."""
    number = operands[operand.name]
    if isinstance(number, int) and not -(1 << 31) <= number < 1 << 31:
        return [ir.Constant(SCALARS["i64"], number)]
    return _values(operands, operand)


def _as_scalar(builder: ir.IRBuilder, value: ir.Value, register: RegisterClass) -> ir.Value:
    if isinstance(value.type, ir.PointerType):
        return builder.ptrtoint(_in_space(builder, value, register), SCALARS[register.llvm])
    return value


def _as_argument(builder: ir.IRBuilder, value: ir.Value, register: RegisterClass) -> ir.Value:
    """`value` as the type that an intrinsic takes for `register`."""
    if register.addrspace is None:
        return value if register.intrinsic == register.llvm else builder.bitcast(value, SCALARS[register.intrinsic])
    if isinstance(value.type, ir.PointerType):
        return _in_space(builder, value, register)
    return pointer_to(builder, value, register.addrspace)


def _in_space(builder: ir.IRBuilder, pointer: ir.Value, register: RegisterClass) -> ir.Value:
    """`pointer` in the address space that `register` names.

    An address of this CTA's shared memory is the same number in the cluster's window (PTX ISA 5.1.7), so it is
    reinterpreted: LLVM's addrspacecast would go through a generic address and back, two instructions for nothing.
    """
    space = pointer.type.addrspace
    if register.addrspace in (None, space):
        return pointer
    wanted = ir.PointerType(addrspace=register.addrspace)
    if (space, register.addrspace) == (RegisterClass.SHARED.addrspace, RegisterClass.SHARED_CLUSTER.addrspace):
        return builder.inttoptr(builder.ptrtoint(pointer, SCALARS[register.llvm]), wanted)
    return builder.addrspacecast(pointer, wanted)


def _result_type(row: Row, struct: Callable[[Sequence[ir.Type]], ir.Type], *, of_intrinsic: bool = False) -> ir.Type:
    names = (
        (output.register.intrinsic if of_intrinsic else output.register.llvm, output.count) for output in row.outputs
    )
    types = [SCALARS[name] for name, count in names for _ in range(count)]
    if not types:
        return ir.VoidType()
    return types[0] if len(types) == 1 else struct(types)


def _unpack(builder: ir.IRBuilder, row: Row, call: ir.Value) -> dict[str, list[ir.Value]]:
    results: dict[str, list[ir.Value]] = {}
    position = 0
    single = sum(operand.count for operand in row.outputs) == 1
    for operand in row.outputs:
        scalar = SCALARS[operand.register.llvm]
        places = range(position, position + operand.count)
        if _are(call.type, places, scalar):
            results[operand.name] = members(builder, call, places)
        else:
            values = (call if single else _element(builder, call, place) for place in places)
            results[operand.name] = [
                value if value.type == scalar else builder.bitcast(value, scalar) for value in values
            ]
        position += operand.count
    return results


def _are(struct: ir.Type, places: range, scalar: ir.Type) -> bool:
    """Whether these members of a struct are registers of this type already."""
    if not isinstance(struct, ir.BaseStructType):
        return False
    members = struct.elements[places.start : places.stop]
    return all(member == scalar for member in {id(member): member for member in members}.values())


def _element(builder: ir.IRBuilder, results: ir.Value, index: int) -> ir.Value:
    if isinstance(results.type, ir.VectorType):
        return builder.extract_element(results, ir.Constant(SCALARS["i32"], index))
    return builder.extract_value(results, index)
