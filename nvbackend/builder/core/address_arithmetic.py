"""Addresses and numbers: compared, as predicates of the kernel, and what is subtracted from an address."""

from __future__ import annotations

from typing import Any

from nvbackend.builder.scopes import rules
from nvbackend.builder.values.values import Arithmetic, Operand, Value, address_type, as_index
from nvbackend.diagnostics import printed
from nvbackend.intrinsics.row.types import ElementType


def compared(address: Any, other: object, *, equal: bool) -> Value:
    """Whether `address` is, or is not, the address or the number `other`: 0 is the null pointer of global memory.

    Raises value.type for an address of another state space, and for anything else.
    """
    number: Value = address.bytes
    if isinstance(other, type(address)):
        if other.space != address.space:
            problem = "addresses of two state spaces are compared"
            rules.TYPE_MISMATCH.fail(problem=problem, advice="compare k.generic_address of both")
        other = other.bytes
    if not isinstance(other, (int, Arithmetic)) or isinstance(other, bool):
        advice = "compare it with an address or an integer, such as 0 for a null pointer"
        rules.TYPE_MISMATCH.fail(problem=f"an address is compared with {printed(other)}", advice=advice)
    return number == other if equal else number != other


def whole_bytes(element: ElementType, elements: Operand) -> int:
    """The size in bytes of this many sub-byte elements; memory.sub-byte unless it is a known whole number."""
    number = elements if isinstance(elements, (int, float)) else elements._value().constant
    if not isinstance(number, int) or number * element.bits % 8:
        shown = number if isinstance(number, int) else "a run-time number of"
        rules.SUB_BYTE.fail(count=shown, element=element, bits=element.bits)
    return number * element.bits // 8


def negative(address: Any, elements: Any) -> Operand:
    """What to add to `address` in place of subtracting so many elements.

    Raises value.type for another address: their distance is one of bytes, which are numbers.
    """
    if isinstance(elements, type(address)):
        distance, size = "(a.bytes - b.bytes)", address.element.bits
        elements_between = f"{distance} // {size // 8}" if size % 8 == 0 else f"{distance} * 8 // {size}"
        advice = f"subtract their numbers, and count the elements between them: {elements_between}"
        rules.TYPE_MISMATCH.fail(problem="an address is subtracted from an address", advice=advice)
    if isinstance(elements, (int, float)):
        return -elements
    return 0 - as_index(address._k, elements).to(address_type(address.space))
