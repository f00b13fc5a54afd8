"""Pointers and tensor maps that a kernel's function never mentions: nothing reads or writes what they point to."""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

from llvmlite import ir

from nvbackend.diagnostics import Diagnostic, Location, functions_in
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.isel.machine.function import MachineFunction
from nvbackend.isel.protocols.unread.protocol import writes_results
from nvbackend.isel.protocols.unread.rules import UNUSED_PARAMETER
from nvbackend.signature import Parameter, Pointer, TensorMap

_FUNCTIONS = 64
"""So many functions are remembered: one is built again and again."""
_LOAD = dis.opmap["LOAD_FAST"]
_KINDS = {Pointer: "pointer", TensorMap: "tensor map"}


@dataclass(frozen=True, slots=True)
class Unmentioned:
    """The parameters that a function never reads by their names, and where it is."""

    names: frozenset[str] = frozenset()
    at: Location | None = None


def unmentioned(function: Callable[..., Any]) -> Unmentioned:
    """Those of `function`, unless it wraps another one. A name that begins with an underscore says that it is meant."""
    code = function.__code__
    names = frozenset(name for name in _unread(code) if not name.startswith("_"))
    if not names or len([*functions_in(function)]) > 1:
        return Unmentioned()
    return Unmentioned(names, Location(code.co_filename, code.co_firstlineno, code.co_name))


def unused_parameters(
    names: Unmentioned, function: ir.Function, machine: MachineFunction, parameters: Sequence[Parameter]
) -> Iterator[Diagnostic]:
    """kernel.unused-parameter for each pointer and map among them that no instruction of a whole kernel has either."""
    wanted = [
        (each, argument)
        for each, argument in zip(parameters, function.args, strict=True)
        if each.name in names.names and type(each.type) in _KINDS
    ]
    if not wanted or not writes_results(machine):
        return
    used = {id(value) for block in function.blocks for each in block.instructions for value in _operands(each)}
    for parameter, argument in wanted:
        if id(argument) not in used:
            yield UNUSED_PARAMETER.diagnose(at=names.at, name=parameter.name, kind=_KINDS[type(parameter.type)])


def _operands(instruction: ir.Instruction) -> list[ir.Value]:
    if isinstance(instruction, ir.PhiInstr):
        return [value for value, _ in instruction.incomings]
    return [*instruction.operands]


@lru_cache(maxsize=_FUNCTIONS)
def _unread(code: CodeType) -> frozenset[str]:
    """The parameters by position that the code never reads, nor a function in it."""
    pairs = zip(code.co_code[::2], code.co_code[1::2], strict=True)
    loaded = {code.co_varnames[number] for opcode, number in pairs if opcode == _LOAD and number < code.co_nlocals}
    unread = {*code.co_varnames[: code.co_argcount]} - loaded - {*code.co_cellvars}
    return frozenset(unread - {*_read(code)}) if unread else frozenset()


def _read(code: CodeType) -> Iterator[str]:
    """What its instructions read, in every version of Python: to take them apart takes a millisecond."""
    for each in dis.get_instructions(code):
        if "LOAD_FAST" in each.opname:
            yield from each.argval if isinstance(each.argval, tuple) else (each.argval,)
