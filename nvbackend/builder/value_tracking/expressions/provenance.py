"""Def-use of mutable variables: those that a value is computed from, and how a block updates them.

It reads the LLVM IR that the builder emits: a variable is a stack slot, a read of it a load.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llvmlite import ir

from nvbackend.builder.scopes.blocks import Storage
from nvbackend.builder.value_tracking.expressions.bits import FIXED, Bits
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineBlock, Update

_PURE_CALLS = (*FIXED, "llvm.nvvm.shfl.sync.")
_CUTS = ("urem", "srem", "and", "select")
_STEPS = 64
"""Expressions of more instructions are not followed."""


def variables(value: ir.Value) -> frozenset[str] | None:
    """The names of the variables that `value` is computed from; None where it depends on anything that may change."""
    names: set[str] = set()
    for part in _expression(value):
        if not isinstance(part, ir.Instruction):
            return None
        if isinstance(part, ir.LoadInstr):
            if not isinstance(part.operands[0], ir.AllocaInstr):
                return None
            names.add(part.operands[0].name)
        elif isinstance(part, ir.CallInstr) and not getattr(part.callee, "name", "").startswith(_PURE_CALLS):
            return None
    return frozenset(names)


def parity_facts(parity: object, block: ir.Block) -> dict[str, int]:
    """Whether the parity that is waited for in `block` is a variable's or the other one, where it is either."""
    value, flipped = parity, 0
    while isinstance(value, ir.Instruction) and not isinstance(value, ir.LoadInstr):
        step = _flips(value)
        if step is None:
            return {}
        value, flips = step
        flipped ^= flips
    at_entry = (
        isinstance(value, ir.LoadInstr) and value.parent is block and isinstance(value.operands[0], ir.AllocaInstr)
    )
    return {facts.FLIPPED: flipped} if at_entry else {}


def swizzle_fact(address: ir.Value, bits: Bits) -> dict[str, int]:
    """The fact of the swizzle of an address, where its arithmetic shows one."""
    span = bits.swizzle(address) if isinstance(address.type, ir.IntType) else None
    return {} if span is None else {facts.SWIZZLE: span}


def _flips(value: ir.Instruction) -> tuple[ir.Value, int] | None:
    """What `value`, a parity, is computed from, and whether it is the other parity; None for any other expression."""
    if value.opname in ("zext", "sext", "trunc"):
        return value.operands[0], 0
    if value.opname in ("xor", "and") and _is_one(value.operands[1]):
        return value.operands[0], int(value.opname == "xor")
    return (value.operands[1], 1) if value.opname == "sub" and _is_one(value.operands[0]) else None


def _is_one(value: ir.Value) -> bool:
    return isinstance(value, ir.Constant) and value.constant == 1


def wraps(value: ir.Value) -> bool:
    """Whether `value` is computed with a remainder, a mask or a choice, and so may come back to what it was."""
    return any(isinstance(part, ir.Instruction) and part.opname in _CUTS for part in _expression(value))


def _expression(value: ir.Value) -> Iterator[ir.Value]:
    """The instructions that `value` is computed by, back to loads; its function at the end of what is too long."""
    waiting, seen = [value], {id(value)}
    while waiting:
        part = waiting.pop()
        if isinstance(part, (ir.Constant, ir.Argument, ir.GlobalValue)):
            continue
        if len(seen) > _STEPS:
            yield part.function
            return
        yield part
        if isinstance(part, ir.LoadInstr):
            continue
        for operand in part.args if isinstance(part, ir.CallInstr) else part.operands:
            if id(operand) not in seen:
                seen.add(id(operand))
                waiting.append(operand)


def note_update(block: MachineBlock, storage: Storage, values: Sequence[ir.Value]) -> None:
    """Record in `block` that `storage` is given `values`. Only single integers are followed."""
    if len(values) != 1 or not isinstance(values[0].type, ir.IntType):
        return
    name = storage.slots[0].name
    block.updates[name] = Update.SET if name in block.updates else _update(name, values[0])
    block.constants.pop(name, None)
    number = values[0].constant if isinstance(values[0], ir.Constant) else None
    if isinstance(number, int):
        block.constants[name] = number


def _update(name: str, value: ir.Value) -> Update:
    if isinstance(value, ir.Instruction) and value.opname in ("add", "sub", "xor") and len(value.operands) == 2:
        left, right = value.operands
        if _reads(left, name) and isinstance(right, ir.Constant):
            if value.opname == "xor":
                return Update.FLIP if right.constant == 1 else Update.SET
            return Update.COUNT
        if value.opname == "sub" and _reads(right, name) and isinstance(left, ir.Constant) and left.constant == 1:
            return Update.FLIP
    return Update.SET


def _reads(value: ir.Value, name: str) -> bool:
    return isinstance(value, ir.LoadInstr) and value.operands[0].name == name
