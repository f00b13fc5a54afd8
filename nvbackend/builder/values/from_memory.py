"""Which values memory decides: data of the launch, of which nobody promises anything."""

from __future__ import annotations

from llvmlite import ir

_OF_MEMORY = ("load", "atomicrmw", "cmpxchg")


def is_from_memory(*values: ir.Value) -> bool:
    """Whether a load or an atomic of memory decides one of the values; what a variable held before is not followed."""
    waiting, seen = [*values], set()
    while waiting:
        value = waiting.pop()
        if not isinstance(value, ir.Instruction) or id(value) in seen:
            continue
        seen.add(id(value))
        if _reads_by_asm(value):
            return True
        if value.opname in _OF_MEMORY and not isinstance(value.operands[0], ir.AllocaInstr):
            return True
        waiting += value.operands
    return False


def _reads_by_asm(value: ir.Instruction) -> bool:
    """Whether it is a statement that may read memory, such as an atomic of `k.atomic`."""
    asm = value.callee if isinstance(value, ir.CallInstr) else None
    return isinstance(asm, ir.InlineAsm) and "~{memory}" in asm.constraint
