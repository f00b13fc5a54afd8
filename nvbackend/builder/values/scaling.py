"""An index as a distance in bytes: extended to the width of an address first, so that the product does not wrap."""

from __future__ import annotations

from typing import Any

from nvbackend.builder.scopes import rules
from nvbackend.builder.values.values import Emitter, Operand, Value, as_value
from nvbackend.diagnostics import printed
from nvbackend.intrinsics.row.types import ElementType, s64, u32

GLOBAL_SPACE = 1
SHARED_SPACE = 3
CLUSTER_SPACE = 7
"""Shared memory of any CTA of the cluster, whose addresses say which."""


def address_type(space: int) -> ElementType:
    """The numbers that addresses of a space are: u32 in shared memory, which wraps as its addresses do, else s64."""
    return s64 if space == GLOBAL_SPACE else u32


def as_index(k: Emitter, given: Operand) -> Value:
    """`given` as an integer value of kernel `k` (value.operation)."""
    index = as_value(k, given)
    if not index.type.is_integer:
        rules.UNSUPPORTED_OPERATION.fail(operation="an index", element=index.type, advice="index with integers")
    return index


def _checked(index: float, unit: int, address: ElementType) -> float:
    """`index`, a number of steps of `unit` bytes: an integer, and so many bytes fit in an address (value.constant).

    The index is what the user wrote; the bytes are not.
    """
    half, bytes_ = 1 << address.bits - 1, unit or 1  # a stride may be 0: then every index is the same place
    low, high = -(half // bytes_), ((half if address.is_signed else 2 * half) - 1) // bytes_
    if not isinstance(index, int) or not low <= index <= high:
        problem = f"{printed(index)} is not an index of elements of {unit} byte(s)"
        rules.CONSTANT_RANGE.fail(problem=problem, allowed=f"an integer from {low} to {high}")
    return index


def scaled(k: Emitter, index: Operand, unit: int, space: int) -> Any:
    """`index` steps of `unit` bytes: a number where it is one, else a value as wide as an address of `space`."""
    if isinstance(index, (int, float)):
        return _checked(index, unit, address_type(space)) * unit
    return as_index(k, index).to(address_type(space)) * unit
