"""What each instruction's access to shared memory is to the protocols, and that accesses elsewhere are none."""

from __future__ import annotations

import pytest

from nvbackend.intrinsics.copy import async_store, cp_async, matrix_move, tcgen05_memory, tma_bulk
from nvbackend.intrinsics.mma import tcgen05, wgmma
from nvbackend.intrinsics.row.row import Row
from nvbackend.isel.flow.accesses import AccessKind, accesses_of, shared_accesses
from nvbackend.isel.machine.function import (
    MachineBlock,
    MachineFunction,
    MachineInstr,
    MemoryObject,
    MemoryTouch,
    MemoryUse,
)
from nvbackend.isel.target.target import Target

COPY = next(row for row in cp_async.rows() if row.opcode == "cp.async")
LDMATRIX = next(row for row in matrix_move.rows() if row.opcode == "ldmatrix")
WGMMA = next(row for row in wgmma.rows() if row.axes.get("a_in_registers") is False)
CASES: list[tuple[Row | None, MemoryUse, AccessKind | None]] = [
    (None, MemoryUse.READ, AccessKind.READ),
    (None, MemoryUse.WRITE, AccessKind.WRITE),
    (None, MemoryUse.SYNCHRONIZE, None),
    (None, MemoryUse.DECLARE, None),
    (None, MemoryUse.ASYNC_WRITE, None),
    (None, MemoryUse.ASYNC_READ, None),
    (LDMATRIX, MemoryUse.READ, AccessKind.READ),
    (COPY, MemoryUse.WRITE, AccessKind.COPY),
    (COPY, MemoryUse.READ, AccessKind.READ),
    (tma_bulk.load_bulk(destination="cta"), MemoryUse.ASYNC_WRITE, AccessKind.LOAD),
    (tma_bulk.load_bulk(), MemoryUse.SYNCHRONIZE, None),
    (tma_bulk.copy_bulk(), MemoryUse.ASYNC_WRITE, AccessKind.RECEIVE),
    (tma_bulk.copy_bulk(), MemoryUse.ASYNC_READ, AccessKind.SEND),
    (tma_bulk.store_bulk(), MemoryUse.ASYNC_READ, AccessKind.STORE),
    (async_store.store("b32"), MemoryUse.ASYNC_WRITE, AccessKind.RECEIVE),
    (WGMMA, MemoryUse.ASYNC_READ, AccessKind.MULTIPLY),
    (tcgen05.mma("f16"), MemoryUse.ASYNC_READ, AccessKind.MULTIPLY_5),
    (tcgen05_memory.cp("128x256b"), MemoryUse.ASYNC_READ, AccessKind.MULTIPLY_5),
]
ELSEWHERE = ("shared::cluster", "global", "local", "tensor")


def memory(space: str, number: int = 1) -> MemoryObject:
    return MemoryObject(number, space, space, 1024, 16)


@pytest.mark.parametrize(("row", "use", "kind"), CASES, ids=lambda each: getattr(each, "opcode", None))
def test_an_access_of_shared_memory_is_of_its_kind(row: Row | None, use: MemoryUse, kind: AccessKind | None) -> None:
    opcode = "ordinary" if row is None else row.opcode
    for offset in (0, 48):
        touch = MemoryTouch(memory("shared"), use, offset=offset, bytes=16)
        instr = MachineInstr(opcode, row, memory=(touch,))
        assert [*accesses_of(instr)] == ([] if kind is None else [(kind, touch)])


@pytest.mark.parametrize(("row", "use", "kind"), CASES, ids=lambda each: getattr(each, "opcode", None))
def test_an_access_elsewhere_is_none(row: Row | None, use: MemoryUse, kind: AccessKind | None) -> None:
    """Alone, or in one instruction with an access of shared memory, before or after it."""
    opcode = "ordinary" if row is None else row.opcode
    own = MemoryTouch(memory("shared"), use, bytes=16)
    others = tuple(MemoryTouch(memory(space, 2 + at), use, bytes=16) for at, space in enumerate(ELSEWHERE))
    instrs = [MachineInstr(opcode, row, memory=touches) for touches in (others, (*others, own), (own, *others), ())]
    expected = [] if kind is None else [(kind, own)]
    assert [[*accesses_of(instr)] for instr in instrs] == [[], expected, expected, []]
    blocks = {"entry": MachineBlock("entry", instrs)}
    found = shared_accesses(MachineFunction("f", Target.parse("sm_100a"), blocks=blocks))
    assert found == ({} if kind is None else {1: expected, 2: expected})
