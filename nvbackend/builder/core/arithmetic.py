"""Selection, and operands made values of one type."""

from __future__ import annotations

from nvbackend.builder.core.core import Core
from nvbackend.builder.values.values import Operand, Value, as_value, pair
from nvbackend.intrinsics.row.types import pred


def select(k: Core, condition: Operand, yes: Operand, no: Operand) -> Value:
    """`yes` where the predicate holds, else `no`; both are evaluated."""
    a, b = pair_of(k, "select", yes, no)
    return k.wrap(k.llvm.select(as_value(k, condition, pred).ir, a.ir, b.ir), a.type)


def pair_of(k: Core, operation: str, left: Operand, right: Operand) -> tuple[Value, Value]:
    """Both as values of one type; two numbers get the type of the first."""
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        left = as_value(k, left)
    return pair(operation, left, right)
