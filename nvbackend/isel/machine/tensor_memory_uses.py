"""Which columns of tensor memory each tcgen05 instruction touches, from its row and its instruction descriptor.

PTX ISA 9.7.16.10.5 (layouts of D), 9.7.16.2.3 (shapes of ld and st).
"""

from __future__ import annotations

from collections.abc import Mapping

from nvbackend.intrinsics.row.row import RegisterClass, Row
from nvbackend.intrinsics.words.tcgen05_descriptor import InstructionDescriptor
from nvbackend.isel.machine.function import MemoryUse

LANE_SHIFT = 16
"""An address has the lane from this bit on, and the column below."""
_WHOLE_LANES = {1: 128, 2: 256}
"""By cta_group: the rows of D that fill every lane of the group, so that D has as many columns as N."""

COLUMNS_OF_A = 8
"""What an mma reads of A along K at least: 256 bits a row, whatever the type."""

_ROWS_OF_FACTORS = 32
"""Rows of A, or columns of B, whose scale factors are in the lanes of one column."""

Uses = Mapping[str, tuple[MemoryUse, int | None]]
"""By operand: what is done, and to how many columns (None: not known)."""

_HALVES = "half_split"


def tmem_uses(row: Row, *, half_split: int = 0, descriptor: InstructionDescriptor | None = None) -> Uses:
    """What `row` does at each of its tensor-memory addresses."""
    uses: dict[str, tuple[MemoryUse, int | None]] = {}
    for operand in row.operands:
        if operand.register is RegisterClass.TMEM:
            uses[operand.name] = (_use(row, operand.name), _columns(row, operand.name, half_split, descriptor))
    return uses


def _use(row: Row, name: str) -> MemoryUse:
    access = row.semantics.accesses(name)
    if access is None:
        return MemoryUse.DECLARE
    return MemoryUse.ASYNC_WRITE if access.writes else MemoryUse.ASYNC_READ


def _columns(row: Row, name: str, half_split: int, descriptor: InstructionDescriptor | None) -> int | None:
    access = row.semantics.accesses(name)
    if access is not None and isinstance(access.extent, int):
        return access.extent + (half_split if row.has_operand(_HALVES) else 0)
    group, stays = row.semantics.cta_group, row.axes.get("weight_stationary")
    if descriptor is None or group is None or stays or descriptor.m != _WHOLE_LANES[group]:
        return None
    return {"d": descriptor.n, "a": COLUMNS_OF_A}.get(name)


def cells_of_result(m: int, n: int, group: int, *, is_sparse: bool, is_stationary: bool) -> tuple[bool, int] | None:
    """Whether D of M x N has all lanes of each CTA of the group, and its columns; None where there is no such product.

    Where it has not all, it has 16 of each 32 (PTX ISA 9.7.16.10.5, layouts C and F).
    """
    if m == _WHOLE_LANES[group]:
        return True, n
    if is_stationary:
        return (True, n * m // _WHOLE_LANES[group]) if group == 1 and m in (32, 64) else None
    if m != _WHOLE_LANES[group] // 2:
        return None
    return (True, n // 2) if group == 2 and not is_sparse else (False, n)


def columns_beside(row: Row, descriptor: InstructionDescriptor) -> dict[str, int]:
    """How many columns a product has of D, and of each operand that must not lie in them; none where D has other lanes.

    Factors of 32 rows are in one column (PTX ISA 9.7.16.10.7), those of A and D's rows for each CTA.
    """
    group = row.semantics.cta_group or 1
    if row.axes.get("weight_stationary"):
        return {}
    is_whole = descriptor.m == _WHOLE_LANES[group]
    reads: dict[str, int] = {}
    if is_whole and _is_in_tensor_memory(row, "a"):
        reads["a"] = COLUMNS_OF_A
    if _is_in_tensor_memory(row, "scale_a"):
        halves = 1 if is_whole else group  # of B's factors, in lanes of their own
        reads["scale_a"] = -(-descriptor.m // (group * _ROWS_OF_FACTORS))
        reads["scale_b"] = -(-descriptor.n // (halves * _ROWS_OF_FACTORS))
    cells = cells_of_result(
        descriptor.m, descriptor.n, group, is_sparse=bool(row.axes.get("sparse")), is_stationary=False
    )
    return {"d": cells[1], **reads} if reads and cells is not None else {}


def _is_in_tensor_memory(row: Row, name: str) -> bool:
    return row.has_operand(name) and row.operand(name).register is RegisterClass.TMEM


def accumulates(enable: str) -> bool | None:
    """Whether an mma whose `enable_d` is printed so adds to D; None where that is decided at run time."""
    return {"true": True, "1": True, "false": False, "0": False}.get(enable)
