"""Which columns of tensor memory each tcgen05 instruction touches, from its row and its instruction descriptor.

PTX ISA 9.7.16.10.5 (layouts of D), 9.7.16.2.3 (shapes of ld and st).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nvbackend.intrinsics.copy import tcgen05_memory
from nvbackend.intrinsics.mma import tcgen05
from nvbackend.intrinsics.row.row import RegisterClass, Row
from nvbackend.intrinsics.words.tcgen05_descriptor import InstructionDescriptor
from nvbackend.isel.machine.parts import MemoryUse

SPACE = "tmem"
"""The space of a memory object in tensor memory; its `bytes` are columns."""
COLUMN_BITS = 32
LANE_SHIFT = 16
"""An address has the lane from this bit on, and the column below."""
_WHOLE_LANES = {1: 128, 2: 256}
"""By cta_group: the rows of D that fill every lane of the group, so that D has as many columns as N."""

_COLUMNS_OF_A = 8
"""What an mma reads of A along K at least: 256 bits a row, whatever the type."""

Uses = Mapping[str, tuple[MemoryUse, int | None]]
"""By operand: what is done, and to how many columns (None: not known)."""

_LOADS = ("tcgen05.ld", "tcgen05.ld.red")
_STORES = ("tcgen05.st",)


def tmem_uses(row: Row, *, half_split: int = 0, descriptor: InstructionDescriptor | None = None) -> Uses:
    """What `row` does at each of its tensor-memory addresses."""
    found: dict[str, tuple[MemoryUse, int | None]] = {}
    for operand in row.operands:
        if operand.register is RegisterClass.TMEM:
            found[operand.name] = (_use(row, operand.name), _columns(row, operand.name, half_split, descriptor))
    return found


def _use(row: Row, name: str) -> MemoryUse:
    if row.opcode == "tcgen05.dealloc":
        return MemoryUse.DECLARE
    if row.opcode in _LOADS:
        return MemoryUse.ASYNC_READ
    if row.opcode.startswith(tcgen05.MMA) and name != "d":
        return MemoryUse.ASYNC_READ
    return MemoryUse.ASYNC_WRITE


def _columns(row: Row, name: str, half_split: int, descriptor: InstructionDescriptor | None) -> int | None:
    axes: dict[str, Any] = dict(row.axes)
    if row.opcode in (*_LOADS, *_STORES):
        # Packed or unpacked, each half of a register has a column of its own.
        columns = int(axes["count"]) * (2 if axes.get("pack") or axes.get("unpack") else 1)
        if axes["shape"] == tcgen05_memory.SPLIT_SHAPE:
            return half_split + columns
        bits = int(axes["shape"].partition("x")[2].rstrip("b"))
        return bits // COLUMN_BITS * columns
    if row.opcode != tcgen05.MMA or descriptor is None or descriptor.m != _WHOLE_LANES[int(axes["cta_group"])]:
        return None
    return {"d": descriptor.n, "a": _COLUMNS_OF_A}.get(name)


def accumulates(enable: str) -> bool | None:
    """Whether an mma whose `enable_d` is printed so adds to D; None where that is decided at run time."""
    return {"true": True, "1": True, "false": False, "0": False}.get(enable)
