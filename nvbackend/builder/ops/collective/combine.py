"""The operations of reductions and scans: by name, or any function of two values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from nvbackend.builder.core.core import Core
from nvbackend.builder.ops.math_functions import Math
from nvbackend.builder.scopes import rules
from nvbackend.builder.values.values import Operand, Value, as_value
from nvbackend.diagnostics import Rule
from nvbackend.intrinsics.row.types import ElementType

Operation: TypeAlias = "str | Callable[[Value, Value], Operand]"
"""What combines two values: a name of `NAMES`, or a function that is associative and commutes."""
Combine: TypeAlias = "Callable[[Value, Value], Value]"

ARITHMETIC = ("add", "mul", "min", "max")
BITWISE = ("and", "or", "xor")
NAMES = (*ARITHMETIC, *BITWISE)

OPERATION = Rule(
    id="reduce.operation",
    message="{call} by {given!r}, which is neither an operation nor a function",
    fix="name one of {names}, or give a function of two values, such as lambda a, b: a + b",
    why="Nothing says how two values become one.",
    reference="docs/guide.md (reductions)",
)


def combining(k: Core, call: str, operation: Operation, element: ElementType, *, nan: bool = False) -> Combine:
    """What combines two values of `element` into one of the same type.

    Raises reduce.operation, value.operation for bits of floats, and value.type for a function that gives another type.
    """
    if callable(operation):
        return lambda a, b: as_value(k, operation(a, b), element)
    if operation not in NAMES:
        OPERATION.fail(call=call, given=operation, names=", ".join(NAMES))
    if operation in BITWISE and element.is_float:
        advice = "take add, mul, min or max, or the bits: .bitcast(nvb.u32)"
        rules.UNSUPPORTED_OPERATION.fail(operation=f"{call} by {operation}", element=element, advice=advice)
    math = Math(k)
    table: dict[str, Combine] = {
        "add": lambda a, b: a + b,
        "mul": lambda a, b: a * b,
        "min": lambda a, b: math.min(a, b, nan=nan),
        "max": lambda a, b: math.max(a, b, nan=nan),
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
    }
    return table[operation]
