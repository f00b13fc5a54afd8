"""The call of a row with an LLVM intrinsic, tried in another process: LLVM ends its own for a wrong one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from llvmlite import ir

from nvbackend.builder.lower.conversions import llvm_type
from nvbackend.builder.lower.lowering import lower
from nvbackend.codegen.isolated import compile_ir_isolated
from nvbackend.diagnostics import DiagnosticError
from nvbackend.diagnostics.boundary import plain_number
from nvbackend.intrinsics.row.row import Intrinsic, RegisterClass, Role, Row, RowOperand
from nvbackend.isel.target.target import Target

_NAME = re.compile(r"llvm\.[A-Za-z0-9_.]+")
_CONSTANTS = tuple(dict.fromkeys(each.llvm for each in RegisterClass))


def fault_of(row: Row, target: Target, operands: Mapping[str, object]) -> str | None:
    """What LLVM has against the call of `row` with these numbers for `target`; None where it compiles."""
    numbers = tuple((each.name, _number(each, operands.get(each.name))) for each in row.immediates)
    return _fault_of(row, target, numbers)


def _number(operand: RowOperand, value: object) -> int:
    """The number that the call gives, the first legal one where it gives none: its own check says so."""
    assert operand.values is not None  # every immediate has them
    number = plain_number(value)
    return number if type(number) is int and number in operand.values else operand.values[0]


@lru_cache(maxsize=1024)
def _fault_of(row: Row, target: Target, numbers: tuple[tuple[str, int], ...]) -> str | None:
    assert isinstance(row.lowering, Intrinsic)
    plain = next(_plain_faults(row, row.lowering), None)
    if plain is not None:
        return plain
    try:
        compile_ir_isolated(_one_call(row, dict(numbers)), target, optimize=0)
    except DiagnosticError as error:
        reason = "; ".join(dict.fromkeys(each.message for each in error.diagnostics))
        return f"a call of {row.lowering.name} does not compile: {': '.join(reason.split(chr(10)))}"
    return None


def _plain_faults(row: Row, lowering: Intrinsic) -> Iterator[str]:
    """What is wrong before LLVM sees it."""
    if not _NAME.fullmatch(lowering.name):
        yield f"{lowering.name!r} is not the name of an LLVM intrinsic"
    for argument in lowering.arguments:
        if isinstance(argument, str):
            if not row.has_operand(argument) or row.operand(argument).role is Role.OUTPUT:
                yield f"its argument {argument!r} is not an input of the row"
        elif argument[0] not in _CONSTANTS:
            yield f"its argument {argument!r} is not a constant (type, integer) of {', '.join(_CONSTANTS)}"


def _one_call(row: Row, numbers: Mapping[str, int]) -> str:
    """A module with a function that calls it once and stores what comes back: the call takes its inputs' arguments."""
    module = ir.Module()
    kinds = [llvm_type(each.register.element) for each in row.operands for _ in range(each.count)]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [*kinds, ir.PointerType()]), "call")
    builder = ir.IRBuilder(function.append_basic_block())
    *arguments, memory = function.args
    remaining = iter(arguments)
    values = {each.name: [next(remaining) for _ in range(each.count)] for each in row.operands}
    for results in lower(builder, row, {**values, **numbers}).values():
        for result in results:
            builder.store(result, memory)
    builder.ret_void()
    return str(module)
