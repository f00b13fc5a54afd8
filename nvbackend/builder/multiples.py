"""What run-time numbers are certainly multiples of, as far as their arithmetic shows."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

from llvmlite import ir

_DEPTH = 12
"""How many operations back a number is followed."""
_CASTS = ("zext", "sext", "trunc")


class Multiples:
    """Divisors of the values of one function. What was found is kept."""

    def __init__(self) -> None:
        self._found: dict[ir.Value, int] = {}

    def divisor(self, value: ir.Value, depth: int = _DEPTH) -> int:
        """A number that `value` certainly is a multiple of, 0 for the number 0.

        Numbers wrap around at their bits, which powers of two outlast; of others it is assumed that they do not.
        """
        if isinstance(value, ir.Constant):
            return abs(value.constant) if type(value.constant) is int else 1
        if not isinstance(value, ir.Instruction) or not depth:
            return 1
        if value not in self._found:
            self._found[value] = self._operation(value, depth - 1)
        return self._found[value]

    def _operation(self, value: ir.Instruction, depth: int) -> int:
        name = value.opname
        if name in _CASTS:
            return self.divisor(value.operands[0], depth)
        if name == "select":
            return math.gcd(*(self.divisor(one, depth) for one in value.operands[1:]))
        if name == "shl":
            shift = value.operands[1]
            known = isinstance(shift, ir.Constant) and type(shift.constant) is int
            return self.divisor(value.operands[0], depth) << (shift.constant if known else 0)
        if name not in _TWO:
            return 1
        return _TWO[name](*(self.divisor(one, depth) for one in value.operands))


def _masked(left: int, right: int) -> int:
    """A bit that is clear in one side of an `and` is clear in the result."""
    return max(_lowest(left), _lowest(right)) if left and right else 0


def _lowest(number: int) -> int:
    return number & -number


_TWO: dict[str, Callable[[int, int], int]] = {
    **dict.fromkeys(("add", "sub"), math.gcd),
    "mul": operator.mul,
    "and": _masked,
    **dict.fromkeys(("or", "xor"), lambda left, right: math.gcd(_lowest(left), _lowest(right))),
}
"""What the result of an operation is a multiple of, given that of its operands."""
