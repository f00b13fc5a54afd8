"""The operations of reductions and scans: by name, or any function of two values or tuples of values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

from nvbackend.builder.core.core import Core
from nvbackend.builder.core.variables import select
from nvbackend.builder.ops.math.functions import Math
from nvbackend.builder.scopes import rules
from nvbackend.builder.values.values import Value, as_value
from nvbackend.diagnostics import Rule, run_callback
from nvbackend.intrinsics.row.types import ElementType, s32

Operation: TypeAlias = "str | Callable[[Any, Any], Any]"
"""What combines two values: a name of `NAMES`, or a function that is associative and commutes."""
Several: TypeAlias = "tuple[Value, ...]"
"""What each thread brings: one value, or some that belong together."""
Combine: TypeAlias = "Callable[[Several, Several], Several]"

EXTREMES = ("min", "max")
ARITHMETIC = ("add", "mul", *EXTREMES)
BITWISE = ("and", "or", "xor")
NAMES = (*ARITHMETIC, *BITWISE)

OPERATION = Rule(
    id="reduce.operation",
    message="{call} by {given!r}, which is neither an operation nor a function",
    fix="name one of {names}, or give a function of two values, such as lambda a, b: a + b",
    why="Nothing says how two values become one.",
    reference="docs/guide.md, Reductions and scans",
)
IDENTITY = Rule(
    id="reduce.initial",
    message="{call} is exclusive and by a function, and nothing says what the first thread gets",
    fix="say it: initial=..., such as 0 for a sum",
    why="No element is before the first one, and only named operations have a value that changes nothing.",
    reference="docs/guide.md, Reductions and scans",
)


def brought(k: Core, value: Any) -> Several:
    """What a thread brings to a reduction, as values."""
    return tuple(as_value(k, part) for part in value) if isinstance(value, tuple) else (as_value(k, value),)


def combining(k: Core, call: str, operation: Operation, values: Several, *, nan: bool) -> Combine:
    """What combines two times what threads bring, of the types of `values`: a named operation one by one.

    `nan` is of min and max of floats. Raises reduce.operation, value.operation for bits of floats, value.type for a
    function that gives other types, and call.no-effect for `nan` elsewhere.
    """
    if not callable(operation) and not (isinstance(operation, str) and operation in NAMES):
        OPERATION.fail(call=call, given=operation, names=", ".join(NAMES))
    if nan:
        _check_nan(call, operation, values)
    if callable(operation):
        return _by_function(k, call, operation, values)
    if operation in BITWISE and (floats := [each.type for each in values if each.type.is_float]):
        advice = "take add, mul, min or max, or the bits: .bitcast(nvb.u32)"
        rules.UNSUPPORTED_OPERATION.fail(operation=f"{call} by {operation}", element=floats[0], advice=advice)
    calls = Math(k)
    table: dict[str, Callable[[Value, Value], Value]] = {
        "add": lambda a, b: a + b,
        "mul": lambda a, b: a * b,
        "min": lambda a, b: calls.min(a, b, nan=nan and a.type.is_float),
        "max": lambda a, b: calls.max(a, b, nan=nan and a.type.is_float),
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
    }
    return lambda a, b: tuple(table[operation](x, y) for x, y in zip(a, b, strict=True))


def _check_nan(call: str, operation: Operation, values: Several) -> None:
    """Raises call.no-effect where nothing is the greater or the lesser of two floats."""
    kinds = " and ".join(str(each.type) for each in values)
    if operation not in EXTREMES:
        by = f"by {operation!r}" if isinstance(operation, str) else "by a function"
        reason = "it is of min and max; a sum or a product of NaN is NaN, and a function says for itself what it gives"
    elif not any(each.type.is_float for each in values):
        by, reason = f"by {operation!r} of {kinds}", "integers have no NaN"
    else:
        return
    rules.NO_EFFECT.fail(argument="nan=True", call=f"{call} {by}", reason=reason, advice="leave it out")


def check_initial(call: str, initial: object, *, exclusive: bool) -> None:
    """Raises call.no-effect for what the first thread would get of a scan that gives it its own value."""
    if initial is not None and not exclusive:
        rules.NO_EFFECT.fail(
            argument=f"initial={initial!r}",
            call=call,
            reason="the first thread of an inclusive scan gets its own value",
            advice="say exclusive=True, or combine the result with it",
        )


def _by_function(k: Core, call: str, function: Callable[[Any, Any], Any], values: Several) -> Combine:
    def combine(a: Several, b: Several) -> Several:
        made = run_callback(call, function, *(a[0], b[0]) if len(values) == 1 else (a, b))
        parts = made if isinstance(made, tuple) else (made,)
        if len(parts) != len(values):
            problem = f"the function of {len(values)} values gives {len(parts)}"
            rules.TYPE_MISMATCH.fail(problem=problem, advice="give as many as each operand has")
        return tuple(as_value(k, part, value.type) for part, value in zip(parts, values, strict=True))

    return combine


def result_of(values: Several, like: object) -> Any:
    """What a call returns: a tuple where the caller brought one."""
    return values if isinstance(like, tuple) else values[0]


def first_of(k: Core, call: str, operation: Operation, values: Several, initial: Any) -> Several:
    """What the first thread of an exclusive scan gets. Raises reduce.initial for a function without `initial`."""
    if initial is None:
        if not isinstance(operation, str):
            IDENTITY.fail(call=call)
        return tuple(_identity(k, operation, each.type) for each in values)
    parts = initial if isinstance(initial, tuple) else (initial,)
    return tuple(as_value(k, part, value.type) for part, value in zip(parts, values, strict=True))


def _identity(k: Core, operation: str, element: ElementType) -> Value:
    """The value that changes nothing."""
    if operation in ("min", "max"):
        return as_value(k, _extreme(element, least=operation == "max"), element)
    ones = -1 if element.is_signed else (1 << element.bits) - 1
    number = {"add": 0, "mul": 1, "and": ones, "or": 0, "xor": 0}[operation]
    return as_value(k, float(number) if element.is_float else number, element)


def _extreme(element: ElementType, *, least: bool) -> float:
    if element.is_float:
        return -math.inf if least else math.inf
    if element.is_signed:
        return -(1 << element.bits - 1) if least else (1 << element.bits - 1) - 1
    return 0 if least else (1 << element.bits) - 1


def extreme_of_pairs(k: Core, mode: str) -> Callable[[Several, Several], Several]:
    """What combines (value, index): the greater (max) or lesser value, and of equal ones the lesser index.

    NaN comes after every number.
    """

    def combine(a: Several, b: Several) -> Several:
        (x, i), (y, j) = a, b
        is_better = y > x if mode == "max" else y < x
        is_equal = y == x
        if x.type.is_float:
            is_better = is_better | (x != x) & (y == y)  # noqa: PLR0124
            is_equal = is_equal | (x != x) & (y != y)  # noqa: PLR0124
        takes = is_better | is_equal & (j < i)
        return select(k, takes, y, x), select(k, takes, j, i)

    return combine


INDEX = s32
"""The type of the index that argmax and argmin give."""
