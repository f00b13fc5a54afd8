"""What each instruction does to the memory that its operands address, and how place and extent are written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache

from nvbackend.intrinsics.row.row import RegisterClass, Role, Row, RowOperand
from nvbackend.intrinsics.row.semantics import BARRIER, Matrix, Proxy, Semantics
from nvbackend.isel.machine.function import MachineInstr, MemoryUse

STRIDE = "stride"
_BARRIER_BYTES = 8
Constants = Mapping[str, int]
"""Operands of an instruction that are known at build time, by name."""


def known_extent(said: Semantics, operand: RowOperand, constants: Constants, *, strided: bool) -> int | None:
    """The bytes from the address in `operand` to the end of the access, where semantics and constants say so.

    A `strided` instruction has an operand with the distance between the lines of a matrix.
    """
    if operand.name == BARRIER:
        return _BARRIER_BYTES
    access = said.accesses(operand.name)
    extent = None if access is None or operand.register is RegisterClass.B64 else access.extent
    if isinstance(extent, Matrix):
        stride = constants.get(STRIDE) if strided else extent.line
        return None if stride is None else extent.extent(stride)
    return constants.get(extent) if isinstance(extent, str) else extent


def dense_extent(row: Row, operand: str, bytes: int) -> int:
    """How many of the `bytes` of an access are accessed for certain: a matrix has gaps between its lines.

    So has the operand of an mma, whose layout or instruction descriptor says how large they are.
    """
    access = row.semantics.accesses(operand)
    if access is None:
        return bytes
    if isinstance(access.extent, Matrix):
        return min(bytes, access.extent.bytes)
    if row.operand(operand).register is not RegisterClass.B64:
        return bytes
    return min(bytes, access.extent) if isinstance(access.extent, int) else 0


PEER_SPACE = "shared::cluster"
"""The space of allocations in another CTA."""

_ADDRESSES = (RegisterClass.SHARED, RegisterClass.SHARED_CLUSTER, RegisterClass.GENERIC)
_USES = {
    (Proxy.GENERIC, False): MemoryUse.READ,
    (Proxy.GENERIC, True): MemoryUse.WRITE,
    (Proxy.ASYNC, False): MemoryUse.ASYNC_READ,
    (Proxy.ASYNC, True): MemoryUse.ASYNC_WRITE,
}
"""By the proxy, and whether it writes."""
_WRITES = (MemoryUse.WRITE, MemoryUse.ASYNC_WRITE)
_OPERATOR = re.compile(r"[ *+\\]")
_SYMBOLS = 1024
"""So many symbols are remembered with what they mean: those of a kernel come again and again."""
DEFINED_IN = "@"
"""What separates the name of a value from the block that defines it, in a symbol."""


def address_use(said: Semantics, operand: RowOperand) -> MemoryUse | None:
    """What is done to the shared memory at the address in `operand`; None if it is not an access or not an address.

    A destination in another CTA of the cluster counts as the same place of this one: `is_remote` tells.
    """
    if operand.register not in _ADDRESSES or operand.role is not Role.INPUT:
        return None
    return MemoryUse.SYNCHRONIZE if operand.name == BARRIER else _use(said, operand)


def descriptor_use(said: Semantics, operand: RowOperand) -> MemoryUse | None:
    """What is done to the shared memory that the descriptor in `operand` describes; None if it is not one."""
    return _use(said, operand) if operand.register is RegisterClass.B64 else None


def _use(said: Semantics, operand: RowOperand) -> MemoryUse | None:
    access = said.accesses(operand.name)
    return None if access is None else _USES[said.proxy, access.writes]


def writes_elsewhere(instr: MachineInstr) -> bool:
    """Whether it writes to shared memory at an operand whose place is not known."""
    said = instr.semantics
    if instr.row is None:
        return (said.in_peer or not instr.memory) and any(use.writes for use in said.memory)
    placed = [] if said.in_peer else [touch.operand for touch in instr.memory if touch.use in _WRITES]
    return not _written(instr.row).issubset(placed)


@cache
def _written(row: Row) -> frozenset[str]:
    """The operands with the addresses of shared memory that `row` writes to."""
    return frozenset(operand.name for operand in row.operands if address_use(row.semantics, operand) in _WRITES)


@cache
def is_remote(row: Row) -> bool:
    """Whether the destination of an asynchronous `row` is in the shared memory of another CTA of the cluster."""
    mapped = any(
        operand.name == BARRIER and operand.register is RegisterClass.SHARED_CLUSTER for operand in row.operands
    )
    return mapped and row.semantics.issues is not None


@lru_cache(maxsize=_SYMBOLS)
def defining_blocks(symbol: str) -> frozenset[str]:
    """The blocks that define the run-time values of a symbol: after their next entry it is another place."""
    return frozenset(re.findall(rf"{DEFINED_IN}([\w.$-]+)", symbol))


def symbol_text(terms: Mapping[str, int]) -> str:
    """The run-time part of a place as text: `%i@loop*1024 + %t@entry*4`, by name; empty without one.

    A value's name is followed by the block that defines it.
    """
    return " + ".join(f"{symbol_part(name)}*{factor}" for name, factor in sorted(terms.items()) if factor)


@lru_cache(maxsize=_SYMBOLS)
def symbol_terms(symbol: str) -> tuple[tuple[str, int], ...]:
    """The names and factors in the text of `symbol_text`."""
    parts: Iterable[str] = symbol.split(" + ") if symbol else ()
    return tuple((name, int(factor)) for name, _, factor in (part.rpartition("*") for part in parts))


def symbol_part(name: str) -> str:
    """LLVM's name without quotes; what could be taken for an operator of the text is spelled by its code."""
    plain = name.replace('"', "")
    return _OPERATOR.sub(lambda match: f"\\{ord(match[0]):02x}", plain) if _OPERATOR.search(plain) else plain
