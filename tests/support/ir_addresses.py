"""What an emitted address is for one thread: the integer arithmetic of LLVM IR, evaluated in Python."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

from llvmlite import ir

_BINARY: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "shl": operator.lshift,
    "ashr": operator.rshift,
}
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "slt": operator.lt,
    "sle": operator.le,
    "sgt": operator.gt,
    "sge": operator.ge,
    "eq": operator.eq,
}
Known = dict[str, int]
"""What special registers (`tid.x`), parameters and variables are, by name; pointers begin where they are said to."""


def evaluate(value: ir.Value, known: Known) -> int:
    """The number that an integer or a pointer is. Shared memory begins at 0."""
    if isinstance(value, ir.Constant):
        return int(value.constant) if isinstance(value.constant, int) else 0
    if isinstance(value, ir.CallInstr):
        return known[value.callee.name.removeprefix("llvm.nvvm.read.ptx.sreg.")]
    return known[value.name] if isinstance(value, ir.Argument) else _result(value, known)


def _result(value: ir.Value, known: Known) -> int:
    assert isinstance(value, ir.Instruction)
    if value.opname == "load" and isinstance(pointer_of(value), ir.AllocaInstr):
        return known[pointer_of(value).name]
    given = [evaluate(one, known) for one in value.operands]
    if value.opname == "icmp":
        return int(_COMPARISONS[value.op](*given))
    if value.opname == "getelementptr":
        return given[0] + given[1]
    if value.opname in ("lshr", "zext"):
        unsigned = given[0] & (1 << value.operands[0].type.width) - 1
        return unsigned >> given[1] if value.opname == "lshr" else unsigned
    if value.opname in _BINARY:
        return _wrapped(_BINARY[value.opname](*given), value.type)
    assert value.opname in ("sext", "trunc", "inttoptr", "ptrtoint"), value.opname
    return _wrapped(given[0], value.type)


def _wrapped(number: int, kind: Any) -> int:
    """As a signed number of the type's width; predicates are 0 and 1."""
    if not isinstance(kind, ir.IntType):
        return number
    half = 1 << kind.width - 1
    return number & 1 if kind.width == 1 else (number + half) % (2 * half) - half


def instructions(function: ir.Function, name: str) -> Iterator[ir.Instruction]:
    """The function's instructions of that kind in order: "load" and "store" of memory, or calls of an intrinsic."""
    for block in function.blocks:
        for one in block.instructions:
            called = isinstance(one, ir.CallInstr) and name in getattr(one.callee, "name", "")
            if called or (one.opname == name and not isinstance(pointer_of(one), ir.AllocaInstr)):
                yield one


def pointer_of(instruction: ir.Instruction) -> ir.Value:
    """The address of a load or a store."""
    return instruction.operands[-1]


def condition_of(instruction: ir.Instruction) -> ir.Value | None:
    """What must hold for an instruction in the block of an `if_` without else to be executed; None outside of one."""
    own = instruction.parent
    for block in own.function.blocks:
        branch = block.terminator
        if branch is not None and branch.opname == "br" and len(branch.operands) == 3 and branch.operands[1] is own:
            return branch.operands[0]
    return None
