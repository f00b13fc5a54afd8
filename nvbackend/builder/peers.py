"""Addresses in the shared memory of the cluster's other CTAs: which values are some, and who may take them."""

from __future__ import annotations

from collections.abc import Iterable

from llvmlite import ir

from nvbackend.builder.lowering import Operands
from nvbackend.builder.operands import values_of
from nvbackend.builder.regions import Region
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
_SHIFTS = ("shl", "lshr", "ashr")
_SHUFFLE = "llvm.nvvm.shfl.sync"
_SHUFFLED = 1
"""The argument of a shuffle that is the value."""
_OFFSET_BITS = 24
"""An address in a CTA's own memory has no bit from here on that says which CTA it is."""
_STEPS = 256
"""So many operations back an address is followed."""


class Peers:
    """The values of one function that are addresses in other CTAs' shared memory."""

    def __init__(self) -> None:
        self._mapped: set[ir.Value] = set()
        self._slots: set[ir.Value] = set()
        self._own: list[tuple[ir.Value, tuple[Region, ...]]] = []
        """What was taken for an address of the CTA's own memory, and the regions that it was made in."""

    def take_for_own(self, number: ir.Value, regions: Iterable[Region]) -> None:
        """Remember that `number`, which may be a variable's, was taken for an address of the CTA's own memory."""
        self._own.append((number, tuple(regions)))

    def check_earlier(self, loops: Iterable[Region]) -> None:
        """Raises cluster.peer-address where a variable set in `loops` was their own address earlier in the round."""
        around = {*loops} if self._slots else set()
        for number, regions in self._own if around else ():
            if not around.isdisjoint(regions) and self.has(number):
                PEER_ADDRESS.fail(instruction="the access above in this loop, in its next round", operand="address")

    def map(self, value: ir.Value) -> None:
        """Remember that `value` is such an address."""
        self._mapped.add(value)

    def set(self, slots: Iterable[ir.Value], values: Iterable[ir.Value]) -> None:
        """A variable in `slots` is set: where it may be such an address once, it is taken for one."""
        if self._mapped:
            self._slots.update(slot for slot, value in zip(slots, values, strict=True) if self.has(value))

    def has(self, value: ir.Value) -> bool:
        """Whether `value` is one, as far as its arithmetic shows."""
        seen: set[tuple[ir.Value, int]] = set()
        waiting = [(value, 0)] if self._mapped else []
        while waiting and len(seen) < _STEPS:
            one, shift = waiting.pop()
            if one in self._mapped and shift == 0:
                return True
            if (one, shift) not in seen and isinstance(one, ir.Instruction):
                seen.add((one, shift))
                if shift == 0 and isinstance(one, ir.LoadInstr) and one.operands[0] in self._slots:
                    return True
                waiting += _origins(one, shift)
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


def _origins(value: ir.Instruction, shift: int) -> list[tuple[ir.Value, int]]:
    """The operands that an address may have been moved from, and by how many bits each is then shifted left."""
    if value.opname in _SHIFTS:
        by = value.operands[1].constant if isinstance(value.operands[1], ir.Constant) else None
        if not isinstance(by, int) or not 0 <= by < value.type.width:
            return []
        return [(value.operands[0], shift + (by if value.opname == "shl" else -by))]
    return [(one, shift) for one in _unshifted_origins(value, shift)]


def _unshifted_origins(value: ir.Instruction, shift: int) -> list[ir.Value]:
    if value.opname in _SUMS or value.opname in _CASTS:
        return list(value.operands)
    if value.opname in ("sub", "extractvalue"):
        return [value.operands[0]]
    if value.opname == "select":
        return list(value.operands[1:])
    if isinstance(value, ir.CallInstr):
        shuffles = str(getattr(value.callee, "name", "")).startswith(_SHUFFLE)
        return [value.args[_SHUFFLED]] if shuffles else []
    if value.opname == "and":
        masks = [one.constant for one in value.operands if isinstance(one, ir.Constant)]
        keeps = all(type(mask) is int and (mask < 0 or _shifted(mask, shift) >> _OFFSET_BITS) for mask in masks)
        return list(value.operands) if masks and keeps else []
    return []


def _shifted(number: int, shift: int) -> int:
    return number << shift if shift >= 0 else number >> -shift
