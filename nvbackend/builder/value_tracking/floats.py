"""Floats that hold integers: conversions of known integers, and comparisons of what comes of them.

They are kept as doubles, which hold each of them exactly. What is rounded is not known.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir

from nvbackend.builder.thread_tables.arithmetic import NATIVE, Numbers, Result, signed
from nvbackend.builder.value_tracking.known import Known

_PRECISION = {"half": 11, "bfloat": 8, "float": 24, "double": 53}
"""By LLVM's types: the bits up to which each integer is a number of the type."""
_LEAST, _LARGEST = 2.0**-14, 2.0**15
_COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "gt": operator.gt,
    "ge": operator.ge,
    "lt": operator.lt,
    "le": operator.le,
}
NAMES = ("sitofp", "uitofp", "fpext", "fcmp")


def constant(value: ir.Constant) -> Numbers | None:
    """A constant that is a number of its type, of a size that each type has; None for another."""
    precision, number = _PRECISION.get(str(value.type)), value.constant
    if precision is None or not isinstance(number, float) or not (number == 0 or _LEAST <= abs(number) <= _LARGEST):
        return None
    significand = abs(number.as_integer_ratio()[0])
    bits = significand.bit_length() - (significand & -significand).bit_length() + 1
    return np.full((1, 1, 1), number) if bits <= precision else None


def result(instruction: ir.Instruction, operands: Sequence[Known]) -> Result | None:
    """What one of `NAMES` gives, where it is exact."""
    if instruction.opname == "fcmp":
        return _compared(instruction, *operands)
    (one,) = operands
    if one.numbers is None or instruction.opname == "fpext":
        return None if one.numbers is None else (one.numbers, one.where)
    width = instruction.operands[0].type.width
    precision = _PRECISION.get(str(instruction.type))
    if precision is None or width > NATIVE:
        return None
    limit = 1 << precision
    if instruction.opname == "sitofp":
        numbers = signed(one.numbers, width)
        exact = (numbers >= -limit) & (numbers <= limit)
    else:
        numbers = one.numbers
        exact = numbers <= np.uint64(limit)
    where = exact if one.where is None else exact & one.where
    return numbers.astype(np.float64), None if where.all() else where


def _compared(instruction: ir.Instruction, left: Known, right: Known) -> Result | None:
    """A comparison: of what is known nothing is NaN, so ordered and unordered ones give the same."""
    compare = _COMPARED.get(instruction.op[1:])
    if compare is None or left.numbers is None or right.numbers is None:
        return None
    parts = [one.where for one in (left, right) if one.where is not None]
    where = None if not parts else parts[0] if len(parts) == 1 else parts[0] & parts[1]
    return compare(left.numbers, right.numbers).astype(np.uint64), where
