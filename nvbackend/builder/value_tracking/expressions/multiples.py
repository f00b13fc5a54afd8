"""What run-time numbers are certainly multiples of, as far as their arithmetic shows."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

from llvmlite import ir

_DEPTH = 12
"""How many operations back a number is followed."""
_LARGEST = 1 << 64
_CASTS = ("zext", "sext", "trunc")
_SHUFFLE = "llvm.nvvm.shfl.sync"
_SHUFFLED = 1
"""The argument of a shuffle that is the value."""


class Multiples:
    """Divisors of the values of one function. What was found is kept."""

    def __init__(self) -> None:
        self._found: dict[ir.Value, int] = {}
        self._counters: dict[ir.Value, int] = {}
        """What the counters of loops are multiples of in each round, by their slots."""

    def count(self, slot: ir.Value, start: ir.Value, step: ir.Value) -> None:
        """A loop counts in `slot`, from `start` on."""
        self._counters[slot] = math.gcd(self.divisor(start), self.divisor(step))

    def divisor(self, value: ir.Value, depth: int = _DEPTH) -> int:
        """A number that `value` certainly is a multiple of, 0 for the number 0.

        Numbers wrap around at their bits, which powers of two outlast; of others it is assumed that they do not.
        """
        if isinstance(value, ir.Constant):
            return abs(value.constant) if type(value.constant) is int else 1
        if not isinstance(value, ir.Instruction) or not depth:
            return 1
        if value not in self._found:
            self._found[value] = _bounded(self._operation(value, depth - 1))
        return self._found[value]

    def _operation(self, value: ir.Instruction, depth: int) -> int:
        name = value.opname
        if name in _CASTS:
            return self.divisor(value.operands[0], depth)
        if name == "select":
            return math.gcd(*(self.divisor(one, depth) for one in value.operands[1:]))
        if name in _SHIFTS or name in _DIVISIONS:
            return self._by_constant(value, depth)
        if name in _TWO:
            return _TWO[name](*(self.divisor(one, depth) for one in value.operands))
        return self._of_another(value, depth)

    def _of_another(self, value: ir.Instruction, depth: int) -> int:
        """Of a loop's counter, or of another lane's number."""
        if isinstance(value, ir.LoadInstr):
            return self._counters.get(value.operands[0], 1)
        if isinstance(value, ir.CallInstr) and str(getattr(value.callee, "name", "")).startswith(_SHUFFLE):
            return self.divisor(value.args[_SHUFFLED], depth)
        return 1

    def _by_constant(self, value: ir.Instruction, depth: int) -> int:
        """What a shift, quotient or rest is a multiple of, by a number that is known.

        A number that wrapped is divided by a power of two without a rest; by others, it may leave one.
        """
        known, number = self.divisor(value.operands[0], depth), _number(value.operands[1])
        if value.opname in _SHIFTS and number is not None and not 0 <= number < value.type.width:
            return 1  # the result is not defined
        if value.opname == "shl":
            return known << (number or 0)
        if number is None:
            return 1
        if value.opname in _RESTS:
            return math.gcd(known, number)
        by = 1 << number if value.opname in _SHIFTS else abs(number)
        return known // by if by == _lowest(by) != 0 and known % by == 0 else 1


def _number(value: ir.Value) -> int | None:
    return value.constant if isinstance(value, ir.Constant) and type(value.constant) is int else None


def _bounded(divisor: int) -> int:
    """A divisor of it that fits 64 bits: that of a product of products has as many bits as one likes."""
    return divisor if divisor < _LARGEST else min(_lowest(divisor), _LARGEST // 2)


def _masked(left: int, right: int) -> int:
    """A bit that is clear in one side of an `and` is clear in the result."""
    return max(_lowest(left), _lowest(right)) if left and right else 0


def _lowest(number: int) -> int:
    return number & -number


_SHIFTS = ("shl", "lshr", "ashr")
_DIVISIONS = ("sdiv", "udiv", "srem", "urem")
_RESTS = ("srem", "urem")
_TWO: dict[str, Callable[[int, int], int]] = {
    **dict.fromkeys(("add", "sub"), math.gcd),
    "mul": operator.mul,
    "and": _masked,
    **dict.fromkeys(("or", "xor"), lambda left, right: math.gcd(_lowest(left), _lowest(right))),
}
"""What the result of an operation is a multiple of, given that of its operands."""
