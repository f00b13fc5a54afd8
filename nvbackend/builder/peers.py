"""Addresses in the shared memory of the cluster's other CTAs: which values are some, and who may take them."""

from __future__ import annotations

from collections.abc import Iterable

from llvmlite import ir

from nvbackend.builder.lowering import Operands
from nvbackend.builder.operands import values_of
from nvbackend.diagnostics import Rule
from nvbackend.intrinsics.row import RegisterClass, Role, Row
from nvbackend.isel.flow.extents import BARRIER
from nvbackend.isel.flow.memory_uses import PEER_SPACE

PEER_ADDRESS = Rule(
    id="cluster.peer-address",
    message="{instruction}, operand {operand}: the address is in the shared memory of another CTA",
    fix="give an address of this CTA's own; what a peer has is loaded and stored: k.map_shared_rank(address, rank)[i]",
    why="The instruction takes addresses of the CTA's own window: it faults, or accesses other memory.",
    reference="PTX ISA 5.1.7 (shared::cta and shared::cluster), 9.7.9 (mapa)",
)
_SUMS = ("add", "or", "xor")
_CASTS = ("trunc", "zext", "sext", "inttoptr", "ptrtoint", "bitcast", "addrspacecast")
_OFFSET_BITS = 24
"""An address in a CTA's own memory has no bit from here on that says which CTA it is."""
_STEPS = 256
"""So many operations back an address is followed."""


class Peers:
    """The values of one function that are addresses in other CTAs' shared memory."""

    def __init__(self) -> None:
        self._mapped: set[ir.Value] = set()
        self._slots: set[ir.Value] = set()

    def map(self, value: ir.Value) -> None:
        """Remember that `value` is such an address."""
        self._mapped.add(value)

    def set(self, slots: Iterable[ir.Value], values: Iterable[ir.Value]) -> None:
        """A variable in `slots` is set: where it may be such an address once, it is taken for one."""
        if self._mapped:
            self._slots.update(slot for slot, value in zip(slots, values, strict=True) if self.has(value))

    def has(self, value: ir.Value) -> bool:
        """Whether `value` is one, as far as its arithmetic shows."""
        seen: set[ir.Value] = set()
        waiting = [value] if self._mapped else []
        while waiting and len(seen) < _STEPS:
            one = waiting.pop()
            if one in self._mapped:
                return True
            if one not in seen and isinstance(one, ir.Instruction):
                seen.add(one)
                if isinstance(one, ir.LoadInstr) and one.operands[0] in self._slots:
                    return True
                waiting += _origins(one)
        return False

    def check(self, row: Row, operands: Operands) -> None:
        """Raises cluster.peer-address where `row` wants an address of the CTA's own memory and has such a one."""
        if not self._mapped:
            return
        for operand in row.operands:
            if operand.register is not RegisterClass.SHARED or operand.role is not Role.INPUT:
                continue
            if operand.name == BARRIER and PEER_SPACE in row.ptx:
                continue  # it is where the data goes, perhaps in another CTA; only LLVM has it in the own window
            if any(map(self.has, values_of({operand.name: operands.get(operand.name)}))):
                PEER_ADDRESS.fail(instruction=row.ptx, operand=operand.name)


def _origins(value: ir.Instruction) -> list[ir.Value]:
    """The operands that an address may have been moved from."""
    if value.opname in _SUMS or value.opname in _CASTS:
        return list(value.operands)
    if value.opname == "sub":
        return [value.operands[0]]
    if value.opname == "select":
        return list(value.operands[1:])
    if value.opname == "and":
        masks = [one.constant for one in value.operands if isinstance(one, ir.Constant)]
        keeps = all(type(mask) is int and (mask < 0 or mask >> _OFFSET_BITS) for mask in masks)
        return list(value.operands) if masks and keeps else []
    return []
