"""Atomic operations on one element of memory: which there are."""

from __future__ import annotations

from nvbackend.diagnostics import Rule
from nvbackend.intrinsics.row.types import ElementType, f32, f64
from nvbackend.intrinsics.sync import atomics
from nvbackend.isel.target.target import VARIANT

ATOMIC = Rule(
    id="memory.atomic",
    message="there is no atomic {operation} on {element}",
    fix="{advice}",
    why="LLVM would expand it into a loop, or stop far from the line that asked for it.",
    reference="PTX ISA 9.7.13 (atom, red)",
)
_ATOMIC_OPERATIONS = ("add", "min", "max", "exch", "and", "or", "xor")
_ATOMIC_BITS = (32, 64)
_SHORT = "use add, min, max, exch, and, or, xor on integers of 32 or 64 bits, or add on f32 or f64; k.atomic has more"
_BITWISE = ("and", "or", "xor")
_BY_BITS = (atomics.EXCHANGE, atomics.CAS)
_WIDE_BITS, _WIDE_PARTS = 64, 2


def atomic_operation(operation: str, element: ElementType) -> str:
    """LLVM's name of the operation on this type. Raises memory.atomic if LLVM has no such operation."""
    floats = ("add",) if element in (f32, f64) else ()
    legal = _ATOMIC_OPERATIONS if element.is_integer and element.bits in _ATOMIC_BITS else floats
    if operation not in legal:
        ATOMIC.fail(operation=operation, element=element, advice=_SHORT)
    if operation in ("min", "max") and not element.is_signed:
        return f"u{operation}"
    return {"exch": "xchg", "add": "fadd" if floats else "add"}.get(operation, operation)


def check_atomic(operation: str, element: ElementType, named: str | None, count: int) -> str:
    """PTX's type of an atomic `operation` on `count` values of `element`, or the one `named`.

    Raises memory.atomic where the operation has no such type, instruction.variant where it has other bits.
    """
    if operation not in atomics.OPERATIONS:
        advice = f"use {', '.join(atomics.OPERATIONS)}"
        ATOMIC.fail(operation=operation, element=element, advice=advice)
    if named is not None and named in atomics.ELEMENTS and atomics.ELEMENTS[named].bits != element.bits:
        reason = f"{named} has {atomics.ELEMENTS[named].bits} bits, and the address is one of {element}"
        VARIANT.fail(instruction=f"atom.{operation}", reason=reason)
    if named is not None and element.is_pair and named != element.name:
        VARIANT.fail(instruction=f"atom.{operation}", reason=f"{named} is named, and the address is one of {element}")
    name = named or _ptx_type(operation, element, count)
    if not any(name in atomics.elements_of(operation, vector) for vector in (1, 2)):
        ATOMIC.fail(operation=operation, element=name, advice=_advice(operation, element))
    return name


def _ptx_type(operation: str, element: ElementType, count: int) -> str:
    if operation in _BY_BITS and element.bits in (16, *_ATOMIC_BITS):
        wide = count == _WIDE_PARTS and element.bits == _WIDE_BITS
        return "b128" if wide else f"b{element.bits}"
    if operation in _BITWISE and element.is_integer:
        return f"b{element.bits}"
    return "u64" if operation == "add" and element.name == "s64" else str(element)


def _advice(operation: str, element: ElementType) -> str:
    legal = ", ".join(atomics.elements_of(operation))
    if operation in ("min", "max") and element.is_float:
        return (
            "loop with k.atomic.cas; where no value is negative, the bits compare as the numbers do: "
            f"k.atomic.{operation}(address.cast(nvb.u32), value.bitcast(nvb.u32)) of f32"
        )
    return f"use one of {legal}: address.cast(...) sees the same bytes as another type; or loop with k.atomic.cas"
