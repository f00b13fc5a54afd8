"""Values read from registers that asynchronous instructions write, which note that the kernel uses them."""

from __future__ import annotations

from llvmlite import ir

from nvbackend.builder.values.values import Value
from nvbackend.isel.machine.facts import UNUSED


class ReadValue(Value):
    """`value`, whose first use takes UNUSED from the `facts` of the instruction that read it.

    `items()` of an accumulator reads it for its coordinates as well: what nobody uses may be undefined.
    """

    __slots__ = ("_facts", "_register")

    def __init__(self, value: Value, facts: dict[str, int]) -> None:
        self._facts = facts
        super().__init__(value._k, value._ir, value._type, value._region)

    @property
    def _ir(self) -> ir.Value:
        self._facts.pop(UNUSED, None)
        return self._register

    @_ir.setter
    def _ir(self, register: ir.Value) -> None:
        self._register = register
