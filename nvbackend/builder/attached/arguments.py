"""The arguments of an owner's function as the parameters of a kernel."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from nvbackend.builder.attached.core import Owned
from nvbackend.builder.core.assumptions import assume_values
from nvbackend.builder.core.memory import Address
from nvbackend.builder.core.parameters import TensorMapParameter, check_parameters
from nvbackend.builder.lower.conversions import llvm_type
from nvbackend.builder.values.values import GLOBAL_SPACE, Value
from nvbackend.diagnostics import Rule, printed
from nvbackend.signature import Parameter, ParameterType, Pointer, Scalar

PARAMETERS = Rule(
    id="attach.parameters",
    message="function {function} and its parameters differ: {problem}",
    fix="{advice}",
    why="A launch passes what the parameters say, and the kernel would read other bytes.",
    reference="docs/embedding.md, Kernels of your own module",
)
_GENERIC = 0


def check_arguments(function: ir.Function, parameters: Sequence[Parameter]) -> None:
    """Raises attach.parameters unless the function's arguments are these; kernel.parameter, kernel.parameter-fact."""
    name = function.name
    if isinstance(parameters, str) or not isinstance(parameters, Sequence):
        problem = f"parameters={printed(parameters)}"
        PARAMETERS.fail(function=name, problem=problem, advice="pass a list: [nvb.Parameter(name, type), ...]")
    if not parameters:
        return
    check_parameters(name, parameters)
    if len(parameters) != len(function.args):
        problem = f"it takes {len(function.args)} argument(s), and gets {len(parameters)} parameter(s)"
        PARAMETERS.fail(function=name, problem=problem, advice="give one for each argument, in their order")
    for place, (parameter, argument) in enumerate(zip(parameters, function.args, strict=True)):
        if not _fits(parameter.type, argument.type):
            problem = f"its argument {place} is {argument.type}, and the parameter {parameter.name} is {parameter.type}"
            PARAMETERS.fail(function=name, problem=problem, advice=_advice(parameter.type))


def _fits(kind: ParameterType, argument: ir.Type) -> bool:
    if isinstance(kind, Scalar):
        return bool(argument == llvm_type(kind.element))
    if not isinstance(argument, ir.PointerType):
        return False
    return argument.addrspace in ((GLOBAL_SPACE, _GENERIC) if isinstance(kind, Pointer) else (_GENERIC,))


def _advice(kind: ParameterType) -> str:
    if isinstance(kind, Scalar):
        return f"make the argument {llvm_type(kind.element)}, or the parameter another type"
    wanted = "ir.PointerType(addrspace=1)" if isinstance(kind, Pointer) else "ir.PointerType(), without byval"
    return f"make the argument {wanted}"


def received(k: Owned, parameters: Sequence[Parameter]) -> list[Value | Address | TensorMapParameter]:
    """The arguments as the calls of the builder take them."""
    return [_received(k, *pair) for pair in zip(parameters, k.function.args, strict=False)]


def _received(k: Owned, parameter: Parameter, argument: ir.Argument) -> Value | Address | TensorMapParameter:
    kind = parameter.type
    if isinstance(kind, Scalar):
        value = k.value(argument, kind.element)
        assume_values(k.core, value, kind)
        return value
    if isinstance(kind, Pointer):
        address = argument if argument.type.addrspace == GLOBAL_SPACE else _global(k, parameter.name, argument)
        return k.global_address(address, kind.element, kind.align, const=kind.const)
    return TensorMapParameter(parameter.name, argument, kind)


def _global(k: Owned, name: str, argument: ir.Argument) -> ir.Value:
    """A generic pointer as one to global memory, at the start of the function, whatever comes after."""
    entry, owner = k.function.entry_basic_block, k.core.following.owner
    pointer = ir.instructions.CastInstr(
        entry, "addrspacecast", argument, ir.PointerType(addrspace=GLOBAL_SPACE), f"{name}.global"
    )
    entry.instructions.insert(0, pointer)
    if owner.block is entry:
        owner._anchor += 1
    k.core.following.emitted.add(pointer)
    return pointer
