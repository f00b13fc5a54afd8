"""Registers of a fragment that hold several elements: their bits, or pairs of the elements' type."""

from __future__ import annotations

from nvbackend.builder.core.core import Core
from nvbackend.builder.values.values import Arithmetic, Operand, Value, as_value
from nvbackend.intrinsics.row.types import BY_NAME, ElementType, u32


def packed_register(k: Core, element: ElementType, register: Operand) -> Value:
    """The bits (u32) of a register of packed elements; value.type where it is a pair of another type."""
    pair = BY_NAME.get(f"{element}x2")
    if pair is not None and isinstance(register, Arithmetic) and register.type.is_pair:
        return as_value(k, register, pair).bitcast(u32)
    return as_value(k, register, u32)
