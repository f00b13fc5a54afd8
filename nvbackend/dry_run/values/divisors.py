"""By what a kernel divides numbers of global memory: it may be for multiples of that alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from nvbackend.dry_run.values.unknown import Expression, Unknown

_QUOTIENTS, _SHIFTS = ("sdiv", "udiv"), ("ashr", "lshr")
_PASSED = ("sext", "zext", "trunc")
_SUMS = ("add", "sub")
_MOST = 1 << 12
"""Numbers are no multiples of more than this."""


class LoopEnds:
    """The conditions on numbers of global memory by which loops end, and the steps in which these count up to them."""

    def __init__(self) -> None:
        self.conditions: dict[Expression, None] = {}
        self._counted: dict[tuple[int, Any], tuple[int, int]] = {}
        """Of a loop and its bound: a number that was compared with it, and what all others differ from that by."""

    def add(self, loop: int, condition: Unknown) -> None:
        """A loop goes on where a condition holds, or where it does not."""
        if not isinstance(condition, Expression):
            return
        self.conditions[condition] = None
        operation, *sides = condition.key
        numbers = [side for side in sides if type(side) is int]
        if operation.startswith("icmp ") and len(numbers) == 1:
            bound = next(side for side in sides if type(side) is not int)
            first, step = self._counted.get((loop, bound), (numbers[0], 0))
            self._counted[loop, bound] = first, math.gcd(step, numbers[0] - first)

    def divisors(self) -> dict[str, int]:
        """Of each array, what its numbers, or their sums and differences, are divided by where loops end.

        Not where a number is added first, as where a quotient is rounded up: then the kernel is for all numbers.
        """
        divided: dict[str, int] = {}
        rounded: dict[str, int] = {}
        for dividend, number in (*self._quotients(), *((key[1], step) for key, (_, step) in self._counted.items())):
            arrays, is_rounded = _arrays(dividend)
            for array in arrays if number > 1 else ():
                found = rounded if is_rounded else divided
                found.update(together(found, {array: number}))
        return {array: unit for array, unit in divided.items() if math.gcd(unit, rounded.get(array, 1)) == 1}

    def _quotients(self) -> Iterator[tuple[Any, int]]:
        from nvbackend.dry_run.values.meaning import nodes

        for node in dict.fromkeys(node for condition in self.conditions for node in nodes(condition)):
            operation = node.key[0].partition(" ")[0]
            if operation in (*_QUOTIENTS, *_SHIFTS) and type(node.key[2]) is int:
                yield node.key[1], node.key[2] if operation in _QUOTIENTS else 1 << node.key[2]


def together(units: Mapping[str, int], others: Mapping[str, int]) -> dict[str, int]:
    """Of each array what the numbers are multiples of that are multiples of both."""
    both = {array: math.lcm(units.get(array, 1), others.get(array, 1)) for array in (*units, *others)}
    return {array: unit if unit <= _MOST else units.get(array, 1) for array, unit in both.items()}


def _arrays(dividend: Any) -> tuple[set[str], bool]:
    """The arrays of whose numbers it is one, or a sum or difference, and whether a number is added; none of others."""
    found, adds, waiting = set[str](), False, [dividend]
    while waiting:
        one = waiting.pop()
        operation, *given = one.key if isinstance(one, Expression) else ("",)
        name = operation.partition(" ")[0]
        if name in _PASSED:
            waiting.append(given[0])
        elif name in _SUMS:
            adds |= any(type(each) is int for each in given)
            waiting += [each for each in given if type(each) is not int]
        elif name == "and" and any(type(each) is int and not each & each + 1 for each in given):
            waiting += [each for each in given if type(each) is not int]  # the bits of a register
        elif name == "load":
            found.update(_parameters(given[0]))
        else:
            return set(), False
    return found, adds


def _parameters(address: Any) -> Iterator[str]:
    """The parameters of which an address is computed."""
    from nvbackend.dry_run.values.meaning import nodes

    for node in nodes(address) if isinstance(address, Expression) else ():
        if node.key[0] == "parameter":
            yield node.key[1]
