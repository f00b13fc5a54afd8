"""Addresses compared with one another and with numbers, as predicates of the kernel."""

from __future__ import annotations

from typing import Any

from nvbackend.builder.scopes import rules
from nvbackend.builder.values.values import Arithmetic, Value
from nvbackend.diagnostics import printed


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
