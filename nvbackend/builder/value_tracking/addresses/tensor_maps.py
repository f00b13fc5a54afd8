"""Which tensor map in memory an instruction works on: addresses that are computed alike are one."""

from __future__ import annotations

from collections.abc import Hashable

from llvmlite import ir

from nvbackend.builder.value_tracking.results import inputs
from nvbackend.isel.machine import facts

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

    def facts(self, key: Hashable) -> dict[str, int]:
        """The fact of the map with this key: see `key_of`."""
        return {} if key is None else {facts.MAP: self._numbers.setdefault(key, len(self._numbers))}


def key_of(value: ir.Value, depth: int = _DEPTH) -> Hashable:
    """What is the same for equal expressions over parameters and the CTA's index; None for any other expression."""
    while isinstance(value, ir.CastInstr) and value.opname in _SAME:
        value = value.operands[0]
    if isinstance(value, ir.Constant) and isinstance(value.constant, int):
        return "number", value.constant
    if isinstance(value, ir.Argument):
        return key_of_parameter(value.name)
    if not depth or not isinstance(value, ir.Instruction) or not _is_compared(value):
        return None
    sources = inputs(value)
    parts = [key_of(operand, depth - 1) for operand in sources]
    callee = str(value.callee.name) if isinstance(value, ir.CallInstr) else ""
    return None if None in parts else (value.opname, callee, str(value.type), *parts)


def key_of_parameter(name: str) -> Hashable:
    """The key of a map that is a parameter of the kernel."""
    return "parameter", name


def _is_compared(value: ir.Instruction) -> bool:
    if isinstance(value, ir.CallInstr):
        return str(getattr(value.callee, "name", "")).startswith(_OF_THE_CTA)
    return isinstance(value, (ir.CastInstr, ir.GEPInstr)) or value.opname in _ARITHMETIC
