"""Which way branches on data go: equal conditions go the same way, opposite conditions go opposite ways."""

from __future__ import annotations

from typing import Any

from nvbackend.dry_run.machine.sums import Sums
from nvbackend.dry_run.values.unknown import UNKNOWN, Unknown

_OPPOSITE = {"ne": "eq", "sge": "slt", "sgt": "sle", "uge": "ult", "ugt": "ule"}
_LOGIC = ("and", "or", "xor")


class Guessed(Exception):
    """The run needs a choice that another thread may make differently: nothing after it is judged."""


class Choices:
    """The choices of one run: a condition about which nothing is known has the value `first`."""

    def __init__(self, *, first: bool) -> None:
        self._first = first
        self._chosen: dict[Any, bool] = {}
        self._sums = Sums()

    def holds(self, condition: Any, wish: bool | None = None) -> bool:
        """Whether a predicate holds; `wish` is its value where either is possible. Raises Guessed."""
        if not isinstance(condition, Unknown):
            return bool(condition)
        if condition is UNKNOWN:
            raise Guessed
        operation, *operands = condition.key
        if operation in _LOGIC:
            left, right = (self.holds(one, wish) for one in operands)
            return {"and": left and right, "or": left or right, "xor": left != right}[operation]
        if operation == "select":
            return self.holds(operands[1 if self.holds(operands[0], wish) else 2], wish)
        if operation.startswith("icmp "):
            return self._compared(operation[5:], operands[0], operands[1], wish)
        return self._free(condition, wish)

    def _compared(self, predicate: str, left: Any, right: Any, wish: bool | None) -> bool:
        if predicate in _OPPOSITE:
            return not self._compared(_OPPOSITE[predicate], left, right, None if wish is None else not wish)
        found = self._sums.choose(predicate, left, right, self._first if wish is None else wish)
        return self._free((predicate, left, right), wish) if found is None else found

    def _free(self, name: Any, wish: bool | None) -> bool:
        found = self._chosen.get(name)
        if found is None:
            found = self._chosen[name] = self._first if wish is None else wish
        return found
