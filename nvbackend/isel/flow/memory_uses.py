"""What each row does to the memory that its operands address, and how the place of an access is written down."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache

from nvbackend.intrinsics.row.row import Operand, RegisterClass, Role, Row
from nvbackend.isel.flow.extents import BARRIER
from nvbackend.isel.machine.function import MachineInstr, MemoryUse

LOAD_SHARED = "ld.shared"
STORE_SHARED = "st.shared"
ATOMIC_SHARED = "atom.shared"
"""Pseudo-instructions that record what ordinary code reads and writes in shared memory."""
ATOMIC_GLOBAL = "atom.global"
"""Records an atomic of global memory: threads may wait for one another by it."""
IN_CLUSTER = {one: f"{one}::cluster" for one in (LOAD_SHARED, STORE_SHARED, ATOMIC_SHARED)}
"""The same of the shared memory of the cluster's other CTAs."""
_OWN_WRITES = (STORE_SHARED, ATOMIC_SHARED)
_PEER_WRITES = tuple(IN_CLUSTER[one] for one in _OWN_WRITES)
PEER_SPACE = "shared::cluster"
"""The space of allocations in another CTA."""
CP_ASYNC = "cp.async"

_ADDRESSES = (RegisterClass.SHARED, RegisterClass.SHARED_CLUSTER)
ORDINARY: Mapping[str, MemoryUse] = {
    "ldmatrix": MemoryUse.READ,
    "stmatrix": MemoryUse.WRITE,
    "wmma.load.a": MemoryUse.READ,
    "wmma.load.b": MemoryUse.READ,
    "wmma.load.c": MemoryUse.READ,
    "wmma.store.d": MemoryUse.WRITE,
    "st.bulk": MemoryUse.WRITE,
    "tcgen05.alloc": MemoryUse.WRITE,
    "tensormap.replace": MemoryUse.WRITE,
    "tensormap.cp_fenceproxy": MemoryUse.READ,
    CP_ASYNC: MemoryUse.WRITE,  # continues after the issue, but through the generic proxy
}
"""By opcode: what the instruction does at its address through the generic proxy."""
_ASYNCHRONOUS = re.compile(r"cp\.(reduce\.)?async\.bulk(\.tensor)?|(st|red)\.async|clusterlaunchcontrol\.try_cancel")
_DESCRIBED = re.compile(r"(wgmma\.mma_async|tcgen05\.mma(\.ws)?)/[ab]_desc|tcgen05\.cp/source")
"""Operands, as opcode/name, that are descriptors of shared memory."""
_PLACES: Mapping[str, MemoryUse] = {"destination": MemoryUse.ASYNC_WRITE, "source": MemoryUse.ASYNC_READ}
_WRITES = (MemoryUse.WRITE, MemoryUse.ASYNC_WRITE)
_SYMBOLS = 1024
"""So many symbols are remembered with what they mean: those of a kernel come again and again."""
DEFINED_IN = "@"
"""What separates the name of a value from the block that defines it, in a symbol."""


def address_use(row: Row, operand: Operand) -> MemoryUse | None:
    """What `row` does to the shared memory at the address in `operand`; None if it is not an access or not an address.

    A destination in another CTA of the cluster counts as the same place of this one: `is_remote` tells.
    """
    if operand.register not in _ADDRESSES or operand.role is not Role.INPUT:
        return None
    if operand.name == BARRIER:
        return MemoryUse.SYNCHRONIZE
    if _ASYNCHRONOUS.fullmatch(row.opcode):
        return _PLACES.get(operand.name)
    return ORDINARY.get(row.opcode)


def descriptor_use(row: Row, operand: Operand) -> MemoryUse | None:
    """What `row` does to the shared memory that the descriptor in `operand` describes; None if it is not one."""
    return MemoryUse.ASYNC_READ if _DESCRIBED.fullmatch(f"{row.opcode}/{operand.name}") else None


def writes_elsewhere(instr: MachineInstr) -> bool:
    """Whether it writes to shared memory at an operand whose place is not known."""
    if instr.row is None:
        return instr.opcode in _PEER_WRITES or (instr.opcode in _OWN_WRITES and not instr.memory)
    written = _written(instr.row)
    return bool(written) and not written.issubset([touch.operand for touch in instr.memory if touch.use in _WRITES])


@cache
def _written(row: Row) -> frozenset[str]:
    """The operands with the addresses of shared memory that `row` writes to."""
    return frozenset(one.name for one in row.operands if address_use(row, one) in _WRITES)


@cache
def is_remote(row: Row) -> bool:
    """Whether the destination of an asynchronous `row` is in the shared memory of another CTA of the cluster."""
    mapped = any(one.name == BARRIER and one.register is RegisterClass.SHARED_CLUSTER for one in row.operands)
    return mapped and _ASYNCHRONOUS.fullmatch(row.opcode) is not None


@lru_cache(maxsize=_SYMBOLS)
def defining_blocks(symbol: str) -> frozenset[str]:
    """The blocks that define the run-time values of a symbol: after their next entry it is another place."""
    return frozenset(re.findall(rf"{DEFINED_IN}([\w.$-]+)", symbol))


def symbol_text(terms: Mapping[str, int]) -> str:
    """The run-time part of a place as text: `%i@loop*1024 + %t@entry*4`, by name; empty without one.

    A value's name is followed by the block that defines it.
    """
    return " + ".join(f"{_escaped(name)}*{factor}" for name, factor in sorted(terms.items()) if factor)


@lru_cache(maxsize=_SYMBOLS)
def symbol_terms(symbol: str) -> tuple[tuple[str, int], ...]:
    """The names and factors in the text of `symbol_text`."""
    parts: Iterable[str] = symbol.split(" + ") if symbol else ()
    return tuple((name, int(factor)) for name, _, factor in (part.rpartition("*") for part in parts))


def _escaped(name: str) -> str:
    """LLVM's names without quotes; what could be taken for an operator of the text is spelled by its code."""
    return re.sub(r"[ *+\\]", lambda found: f"\\{ord(found[0]):02x}", name.replace('"', ""))
