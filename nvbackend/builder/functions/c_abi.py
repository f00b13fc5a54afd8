"""The C calling convention of device functions: how types are passed, and how C and CUDA C++ declare them.

The convention is that of NVPTX in LLVM and in libNVVM: integers of less than 32 bits take a `.param .b32`, several
results are a struct. Source: PTX ISA 7.1 (function declarations), PTX Writer's Guide to Interoperability.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llvmlite import ir

from nvbackend.builder.core.core import Core
from nvbackend.builder.core.memory import Address
from nvbackend.builder.functions.parameters import Kind
from nvbackend.builder.lower.conversions import llvm_type
from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.values.values import GLOBAL_SPACE, SHARED_SPACE, Value
from nvbackend.codegen.saved.c_header import names_of_c
from nvbackend.intrinsics.row.types import ElementType, pred, u8, u16
from nvbackend.signature import Pointer, Scalar

_INTEGERS = {8: "char", 16: "short", 32: "int", 64: "long long"}
_FLOATS = {"float": "float", "double": "double"}
_HALVES = ("half", "bfloat")
_BYTE = "unsigned char"
_I32 = ir.IntType(32)


def passed_type(kind: Kind) -> ir.Type:
    """The LLVM type of a parameter: pointers are generic, as C's are."""
    if isinstance(kind, Pointer):
        return ir.PointerType()
    assert isinstance(kind, Scalar)
    return stored_type(kind.element)


def stored_type(element: ElementType) -> ir.Type:
    """The LLVM type that a value is passed, returned and stored as: bits where C has no such type."""
    if element is pred:
        return ir.IntType(8)
    return ir.IntType(16) if element.llvm in _HALVES else llvm_type(element)


def received(k: FunctionBuilder, kind: Kind, argument: ir.Argument) -> Value | Address:
    """A parameter as the body sees it."""
    core = k.core
    if isinstance(kind, Scalar):
        return _value(core, kind.element, argument)
    assert isinstance(kind, Pointer)
    if kind.space == "global":
        pointer = core.llvm.addrspacecast(argument, ir.PointerType(addrspace=GLOBAL_SPACE))
        return k.memory.global_address(pointer, kind.element, kind.align, const=kind.const)
    window = core.llvm.addrspacecast(argument, ir.PointerType(addrspace=SHARED_SPACE))
    number = core.llvm.ptrtoint(window, _I32)
    return Address(core, number, kind.element, SHARED_SPACE, kind.align)


def _value(core: Core, element: ElementType, argument: ir.Value) -> Value:
    if element is pred:
        return core.wrap(argument, u8) != 0
    if element.llvm in _HALVES:
        return core.wrap(argument, u16).bitcast(element)
    return core.wrap(argument, element)


def extend_result(function: ir.Function, results: Sequence[ElementType] | None) -> None:
    """Have LLVM fill the whole register of a result of 8 or 16 bits, as compilers of C do."""
    if results and len(results) == 1 and stored_type(results[0]) in (ir.IntType(8), ir.IntType(16)):
        function.return_value.add_attribute("signext" if results[0].is_signed else "zeroext")


def returned(value: Value) -> ir.Value:
    """A result as the caller gets it."""
    if value.type is pred:
        return value.to(u8).ir
    return value.bitcast(u16).ir if value.type.llvm in _HALVES else value.ir


# -- as C and CUDA C++ declare it -------------------------------------------------------------------------------------


def c_type(element: ElementType) -> str:
    """The type of a value, by names that NVRTC knows without any header."""
    if element is pred:
        return "bool"
    if element.llvm in _FLOATS:
        return _FLOATS[element.llvm]
    bits = 16 if element.llvm in _HALVES else int(element.llvm[1:])
    if element.is_signed:
        return f"{'signed ' if bits == 8 else ''}{_INTEGERS[bits]}"
    return f"unsigned {_INTEGERS[bits]}"


def pointed_type(element: ElementType) -> str:
    """The type of elements in memory; packed ones are bytes."""
    if element is pred or element.bits < 8:
        return _BYTE
    return c_type(element)


def result_type(name: str, results: Sequence[ElementType] | None) -> str:
    """What the function returns: a struct called after it where there are several results."""
    if not results:
        return "void"
    return c_type(results[0]) if len(results) == 1 else f"struct {name}_results"


def declaration(name: str, parameters: Mapping[str, Kind], results: Sequence[ElementType] | None) -> str:
    """The declaration in CUDA C++, of C linkage, with the struct of its results before it."""
    lines = []
    if results and len(results) > 1:
        members = " ".join(f"{c_type(each)} result{index};" for index, each in enumerate(results))
        lines.append(f"{result_type(name, results)} {{ {members} }};")
    names = names_of_c(parameters)
    passed = ", ".join(_parameter(own, kind) for own, kind in zip(names, parameters.values(), strict=True))
    lines.append(f'extern "C" __device__ {result_type(name, results)} {name}({passed or "void"});')
    return "\n".join(lines)


def _parameter(name: str, kind: Kind) -> str:
    if isinstance(kind, Pointer):
        return f"{'const ' * kind.const}{pointed_type(kind.element)} *{name}"
    assert isinstance(kind, Scalar)
    return f"{c_type(kind.element)} {name}"
