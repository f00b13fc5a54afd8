"""What the registers of mutable storage hold at the present place, as the builder goes from line to line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llvmlite import ir

from nvbackend.builder.lower import registers
from nvbackend.builder.scopes.blocks import Storage
from nvbackend.builder.value_tracking.execution import Execution, Merged


class KnownRegisters:
    """The registers of each storage, so that most reads load nothing.

    A write goes to the stack slots where the block ends. Without `is_kept` nothing is known and each write goes there
    at once: an owner's own code may come between.
    """

    def __init__(self, execution: Execution, *, is_kept: bool) -> None:
        self._execution = execution
        self._is_kept = is_kept
        self.registers: dict[Storage, list[ir.Value]] = {}
        """The registers of each storage, or what is known of them after an if."""
        self._unstored: dict[Storage, None] = {}

    @property
    def is_stored(self) -> bool:
        """Whether the stack slots hold all that was written."""
        return not self._unstored

    def enter(self, known: Mapping[Storage, list[ir.Value]]) -> None:
        """Begin a block into which every edge brings the registers `known`."""
        self.registers, self._unstored = dict(known), {}

    def read(self, llvm: ir.IRBuilder, storage: Storage) -> list[ir.Value]:
        """The present values of the registers, loaded where they are not known."""
        known = self.registers.get(storage)
        if known is not None and not isinstance(known[0], Merged):
            return known
        loads = registers.loads(llvm, storage.slots, storage.name)
        for load, merged in zip(loads, known or (), strict=False):
            self._execution.merge(load, merged)
        if self._is_kept:
            self.registers[storage] = loads
        return loads

    def write(self, llvm: ir.IRBuilder, storage: Storage, values: Sequence[ir.Value]) -> None:
        """Set the registers."""
        if self._is_kept:
            self.registers[storage] = list(values)
            self._unstored[storage] = None
        else:
            registers.stores(llvm, values, storage.slots)

    def store(self, llvm: ir.IRBuilder) -> None:
        """Store in the stack slots what was written since the block began."""
        for storage in self._unstored:
            registers.stores(llvm, self.registers[storage], storage.slots)
        self._unstored = {}
