"""Which tensor map in memory an instruction works on: addresses that are computed alike are one.

Plain stores are noted when they are written, and looked at when all maps are known that copies use.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from zlib import crc32

from llvmlite import ir

from nvbackend.builder.value_tracking.execution import Execution
from nvbackend.builder.value_tracking.results import inputs
from nvbackend.isel.flow.paths import coming
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineBlock, MachineFunction

MAP_BYTES = 128
"""What a tensor map takes in memory."""
PARAMETER = "parameter"
"""What the keys of parameters begin with."""

_BYTE = ir.IntType(8)
_DEPTH = 12
"""Expressions deeper than this are not compared."""
_SAME = ("ptrtoint", "inttoptr", "bitcast", "addrspacecast")
_ARITHMETIC = ("add", "sub", "mul", "shl", "or", "and")
_WIDTHS = ("zext", "sext", "trunc")
_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "shl": operator.lshift,
}
_BITS = 64
_CTAS = (3, 5)
"""Indices of CTAs for which distances are compared."""
_REGISTERS = "llvm.nvvm.read.ptx.sreg."
_OF_THE_CTA = tuple(f"{_REGISTERS}{name}" for name in ("ctaid.", "nctaid.", "cluster", "ncluster"))


class TensorMapPlaces:
    """The numbers of the addresses of maps in one function."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._numbers: dict[Hashable, int] = {}
        self._in_memory: dict[int, ir.Value] = {}
        """The addresses of maps in global memory, by their numbers."""
        self._stores: list[tuple[MachineBlock, int, ir.Value]] = []
        """Plain stores: the block, the index among its plain accesses, the address."""

    def facts(self, address: ir.Value) -> dict[str, int]:
        """The fact of the map at this address: see `key_of`."""
        key = key_of(address)
        if key is None:
            return {}
        number = self._numbers.setdefault(key, len(self._numbers))
        self._in_memory.setdefault(number, address)
        return {facts.MAP: number}

    def note_store(self, block: MachineBlock, pointer: ir.Value) -> None:
        """The last of the plain accesses of `block` is a store to global memory."""
        self._stores.append((block, len(block.plain) - 1, pointer))

    def mark_stores(self, machine: MachineFunction) -> None:
        """Give the stores that certainly are to one of the maps the fact of this map."""
        if not self._in_memory:
            return
        threads, widths = coming(machine), Offsets(self._execution)
        for block, index, pointer in self._stores:
            there = threads[block.name]
            for number, address in self._in_memory.items():
                if widths.is_inside(pointer, address, MAP_BYTES, there):
                    anchor, store = block.plain[index]
                    block.plain[index] = anchor, replace(store, facts={**store.facts, facts.MAP: number})


class Offsets:
    """Addresses as a parameter and the distance from it in each thread, in CTAs of some index."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution

    def is_inside(self, pointer: ir.Value, start: ir.Value, bytes: int, threads: int) -> bool:
        """Whether some of the threads, a bit each, access the bytes from `start` on, in every CTA that is tried."""
        for cta in _CTAS:
            first, other = self._of(pointer, cta), self._of(start, cta)
            if first is None or other is None or first[0] != other[0]:
                return False
            apart = (place - base for place, base in zip(first[1], other[1], strict=True))
            if not any(0 <= each < bytes and threads >> thread & 1 for thread, each in enumerate(apart)):
                return False
        return True

    def _of(self, value: ir.Value, cta: int, depth: int = _DEPTH) -> tuple[str, Sequence[int]] | None:
        while isinstance(value, ir.CastInstr) and value.opname in (*_SAME, *_WIDTHS):
            value = value.operands[0]
        if isinstance(value, ir.Argument) and isinstance(value.type, ir.PointerType):
            return value.name, [0] * self._execution.cta.threads
        numbers = self._numbers(value, cta)
        if numbers is not None:
            return "", numbers
        is_sum = isinstance(value, ir.GEPInstr) and value.source_etype == _BYTE
        operation = "add" if is_sum else getattr(value, "opname", "")
        if not depth or operation not in _OPERATIONS:
            return None
        left, right = (self._of(each, cta, depth - 1) for each in value.operands)
        if left is None or right is None or (left[0] and right[0]) or (operation != "add" and (left[0] or right[0])):
            return None
        if operation == "shl" and not all(0 <= by < _BITS for by in right[1]):
            return None  # the result is not defined, or a register of the CTA decides it
        return left[0] or right[0], [*map(_OPERATIONS[operation], left[1], right[1])]

    def _numbers(self, value: ir.Value, cta: int) -> Sequence[int] | None:
        """A number in each thread: of one that the CTA's index decides another for each register."""
        everyone = self._execution.cta.threads
        if isinstance(value, ir.Constant):
            return [value.constant] * everyone if isinstance(value.constant, int) else None
        name = str(getattr(value.callee, "name", "")) if isinstance(value, ir.CallInstr) else ""
        if name.startswith(_OF_THE_CTA):
            return [cta * crc32(name.encode())] * everyone
        return self._execution.numbers(value)


def key_of(value: ir.Value, depth: int = _DEPTH) -> Hashable:
    """What is the same for equal expressions over parameters and the CTA's index; None for any other expression."""
    while isinstance(value, ir.CastInstr) and value.opname in _SAME:
        value = value.operands[0]
    if isinstance(value, ir.Constant) and isinstance(value.constant, int):
        return "number", value.constant
    if isinstance(value, ir.Argument):
        return PARAMETER, value.name
    if not depth or not isinstance(value, ir.Instruction) or not _is_compared(value):
        return None
    sources = inputs(value)
    parts = [key_of(operand, depth - 1) for operand in sources]
    callee = str(value.callee.name) if isinstance(value, ir.CallInstr) else ""
    kind = value.source_etype if isinstance(value, ir.GEPInstr) else value.type
    return None if None in parts else (value.opname, callee, str(kind), *parts)


def _is_compared(value: ir.Instruction) -> bool:
    if isinstance(value, ir.CallInstr):
        return str(getattr(value.callee, "name", "")).startswith(_OF_THE_CTA)
    return isinstance(value, (ir.CastInstr, ir.GEPInstr)) or value.opname in _ARITHMETIC
