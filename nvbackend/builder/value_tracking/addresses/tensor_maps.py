"""Which tensor map in memory an instruction works on: addresses that are computed alike are one."""

from __future__ import annotations

from collections.abc import Hashable

from llvmlite import ir

from nvbackend.builder.lower.lowering import Operands
from nvbackend.builder.value_tracking.results import inputs
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.semantics import TensorMapUse
from nvbackend.isel.machine import facts

_ADDRESSES = ("tensor_map", "destination")
"""The operands that are the address of a map, the first of them that a row has."""
_UNADDRESSED = (None, TensorMapUse.RELEASE)
_DEPTH = 12
"""Expressions deeper than this are not compared."""
_SAME = ("ptrtoint", "inttoptr", "bitcast", "addrspacecast")
_ARITHMETIC = ("add", "sub", "mul", "shl", "or", "and")
_REGISTERS = "llvm.nvvm.read.ptx.sreg."
_OF_THE_CTA = tuple(f"{_REGISTERS}{name}" for name in ("ctaid.", "nctaid.", "cluster", "ncluster"))


class TensorMapPlaces:
    """The numbers of the addresses of maps in one function."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def facts(self, row: Row, operands: Operands) -> dict[str, int]:
        """The fact of the map of `row`, where it works on one, and nothing but the CTA's index decides which."""
        if row.semantics.tensor_map in _UNADDRESSED:
            return {}
        name = next(name for name in _ADDRESSES if row.has_operand(name))
        address = operands.get(name)
        key = _key(address, _DEPTH) if isinstance(address, ir.Value) else None
        return {} if key is None else {facts.MAP: self._numbers.setdefault(key, len(self._numbers))}


def _key(value: ir.Value, depth: int) -> Hashable:
    """What is the same for equal expressions over parameters and the CTA's index; None for any other expression."""
    while isinstance(value, ir.CastInstr) and value.opname in _SAME:
        value = value.operands[0]
    if isinstance(value, ir.Constant) and isinstance(value.constant, int):
        return "number", value.constant
    if isinstance(value, ir.Argument):
        return "parameter", value.name
    if not depth or not isinstance(value, ir.Instruction) or not _is_compared(value):
        return None
    sources = inputs(value)
    parts = [_key(operand, depth - 1) for operand in sources]
    callee = str(value.callee.name) if isinstance(value, ir.CallInstr) else ""
    return None if None in parts else (value.opname, callee, str(value.type), *parts)


def _is_compared(value: ir.Instruction) -> bool:
    if isinstance(value, ir.CallInstr):
        return str(getattr(value.callee, "name", "")).startswith(_OF_THE_CTA)
    return isinstance(value, (ir.CastInstr, ir.GEPInstr)) or value.opname in _ARITHMETIC
