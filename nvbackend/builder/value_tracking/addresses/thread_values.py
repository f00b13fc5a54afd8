"""What analyses may ask of a function's run-time values: the number in each thread, and whether it is uniform.

The answers come from the LLVM IR, on demand: most kernels need none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from llvmlite import ir

from nvbackend.builder.lower.pointers import base_of
from nvbackend.builder.value_tracking.addresses.places import symbol_name
from nvbackend.builder.value_tracking.execution import Execution
from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.isel.flow.memory_uses import DEFINED_IN


class ThreadValues:
    """The values of `function`, by their names in symbols; those of `isel.machine.function.RunTimeValues`."""

    def __init__(self, function: ir.Function, execution: Execution, scopes: Mapping[ir.Value, Scope]) -> None:
        self._function = function
        self._execution = execution
        self._scopes = scopes
        self._by_block: dict[str, ir.Block] | None = None
        self._found: dict[str, dict[str, ir.Value]] = {}

    def numbers(self, name: str) -> Sequence[int] | None:
        """The value in each thread of the CTA; None where it is not known."""
        value = self._value(name)
        return None if value is None else self._execution.numbers(value)

    def ranks(self, name: str) -> Sequence[int] | None:
        """The value in each CTA of the cluster; None where it is not known."""
        value = self._value(name)
        return None if value is None else self._execution.in_each_cta(value)

    def counted(self, name: str) -> tuple[int, int] | None:
        """The values in the first and in the last round of the loop that it counts; None where that is not known."""
        value = self._value(name)
        return None if value is None else self._execution.counted(value)

    def is_same(self, name: str) -> bool:
        """Whether all threads that run its block together certainly have the same value."""
        value = self._value(name)
        return value is not None and self._execution.is_same(value)

    def scope(self, name: str) -> Scope:
        """The largest scope over which it is the same, of the addresses of mbarriers; GRID for what is not known."""
        value = self._value(name)
        return Scope.GRID if value is None else self._scopes.get(value, Scope.GRID)

    def array(self, name: str) -> str | None:
        """The parameter to which an address that is an operand points; None where that is not known."""
        return _array_of(self._operands[name]) if name in self._operands else None

    @cached_property
    def _operands(self) -> dict[str, ir.Value]:
        """All values, by what operands call them."""
        every = (self._function.args, *(block.instructions for block in self._function.blocks))
        return {value.get_reference(): value for values in every for value in values}

    def _value(self, name: str) -> ir.Value | None:
        """The value with this name in symbols: most have their own and that of the block that defines them."""
        own, _, block = name.partition(DEFINED_IN)
        if DEFINED_IN not in block:
            value = self._defined(block).get(f'%"{own[1:]}"')
            if value is not None and symbol_name(value) == name:
                return value
        return self._values.get(name)

    def _defined(self, name: str) -> dict[str, ir.Value]:
        """The integers that a block defines, by what operands call them."""
        if self._by_block is None:
            self._by_block = {block.name: block for block in self._function.blocks}
        values = self._found.get(name)
        if values is None:
            block = self._by_block.get(name)
            values = {} if block is None else {value.get_reference(): value for value in _integers(block.instructions)}
            self._found[name] = values
        return values

    @cached_property
    def _values(self) -> dict[str, ir.Value]:
        """All values, by their names in symbols and, as instructions are, by their own names as well."""
        named: dict[str, ir.Value] = {}
        for values in (self._function.args, *(block.instructions for block in self._function.blocks)):
            for value in _integers(values):
                named[symbol_name(value)] = named[value.get_reference()] = value
        return named


def _array_of(address: ir.Value) -> str | None:
    """The parameter that an address is a step from."""
    base = base_of(address)
    if isinstance(base, ir.Argument):
        return str(base.name) if isinstance(base.type, ir.PointerType) else None
    parts = base.operands if isinstance(base, ir.Instruction) and base.opname == "add" else ()
    return next((name for part in parts if (name := _array_of(part)) is not None), None)


def _integers(values: Iterable[ir.Value]) -> list[ir.Value]:
    return [value for value in values if type(value.type) is ir.IntType]
