"""Atomic operations on one element of memory."""

from __future__ import annotations

from nvbackend.diagnostics import Rule
from nvbackend.intrinsics.row.types import ElementType, f32, f64

ATOMIC = Rule(
    id="memory.atomic",
    message="there is no atomic {operation} on {element}",
    fix="use add, min, max, exch, and, or, xor on integers of 32 or 64 bits, or add on f32 or f64",
    why="LLVM would expand it into a loop, or stop far from the line that asked for it.",
    reference="PTX ISA 9.7.13 (atom)",
)
_ATOMIC_OPERATIONS = ("add", "min", "max", "exch", "and", "or", "xor")
_ATOMIC_BITS = (32, 64)


def atomic_operation(operation: str, element: ElementType) -> str:
    """LLVM's name of the operation on this type. Raises memory.atomic if LLVM has no such operation."""
    floats = ("add",) if element in (f32, f64) else ()
    legal = _ATOMIC_OPERATIONS if element.is_integer and element.bits in _ATOMIC_BITS else floats
    if operation not in legal:
        ATOMIC.fail(operation=operation, element=element)
    if operation in ("min", "max") and not element.is_signed:
        return f"u{operation}"
    return {"exch": "xchg", "add": "fadd" if floats else "add"}.get(operation, operation)
