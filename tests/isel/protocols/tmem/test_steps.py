"""Single steps of tensor memory: what signals a read, what fills columns, which places may meet."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import pytest

from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics import catalogue
from nvbackend.intrinsics.row.types import u32, u64
from nvbackend.isel.machine.function import TMEM, MachineInstr, MemoryObject, MemoryTouch, MemoryUse
from nvbackend.isel.protocols.tmem.protocol import check_tmem_protocol
from nvbackend.isel.protocols.tmem.state import (
    _may_meet,
    _signals,
    is_barrier,
    is_commit,
    is_mma,
    overlap,
)
from nvbackend.signature import Parameter, Pointer
from tests.support.tmem_kernel import COLUMNS, F16, SHAPE


def new() -> KernelBuilder:
    return KernelBuilder("kernel", "sm_100a", threads=128, parameters=[Parameter("out", Pointer(u32))])


def told(k: KernelBuilder) -> list[str]:
    k.return_()
    k.core.link()
    return [one.rule_id for one in check_tmem_protocol(k.machine)]


@pytest.mark.parametrize(
    ("after", "wrong"),
    [("arrive", False), ("barrier", False), ("commit", True), ("fence", True), ("relinquish", True), ("", True)],
)
def test_a_read_is_over_for_others_when_its_thread_signals(after: str, wrong: bool) -> None:
    """What the tensor core signals says nothing of what the thread has read."""
    k = new()
    cell, done = k.shared(u32, 1), k.mbarrier.array(1, 1)
    with k.if_(k.warp_id() == 0):
        k.tcgen05.alloc(cell, 64)
    k.mbarrier.ready()
    with k.if_(k.warp_id() == 1):
        load = k.tcgen05.ld(cell[0], "32x32b", 1)
        k.tcgen05.wait_ld(load)
        k.arguments[0][k.thread_id()] = load.values[0]
        k.tcgen05.fence_before_thread_sync()
        {
            "arrive": lambda: k.mbarrier.arrive(done),
            "barrier": lambda: k.barrier.sync(1, 64),
            "commit": lambda: k.tcgen05.commit(done),
            "fence": k.tcgen05.fence_after_thread_sync,
            "relinquish": k.tcgen05.relinquish_alloc_permit,
            "": lambda: None,
        }[after]()
    with k.if_(k.warp_id() == 0):
        k.tcgen05.dealloc(cell[0], 64)
    assert told(k) == ["tcgen05.missing-barrier"] * wrong


@pytest.mark.parametrize("fills", [True, False])
def test_a_copy_fills_columns_and_a_shift_does_not(fills: bool) -> None:
    k = new()
    done = k.mbarrier.array(1, 1)
    k.mbarrier.ready()
    with k.tcgen05.tmem(COLUMNS) as tmem, k.one_thread():
        if fills:
            k.tcgen05.cp(tmem, k.const(0, u64), "128x256b")
        else:
            k.tcgen05.shift(tmem)
        k.tcgen05.mma(F16, tmem, k.const(0, u64), k.const(0, u64), SHAPE, accumulate=True)
        k.tcgen05.commit(done)
    assert told(k) == ["tcgen05.undefined-accumulator"] * (not fills)


def test_places_meet_where_they_share_a_column() -> None:
    """For certain only where both are known; perhaps, unless both are known and share none."""
    blocks = [MemoryObject(number, "t", TMEM, 64, 1) for number in (1, 2)]
    touches = [
        MemoryTouch(block, MemoryUse.READ, "a", offset, symbol, size)
        for block, offset, symbol, size in itertools.product(blocks, (0, 1, 8, 9), ("", "%i@b0*8"), (None, 1, 8))
    ]
    for one, other in itertools.product(touches, repeat=2):
        columns = [{*range(each.offset, each.offset + (each.bytes or 1))} for each in (one, other)]
        same = one.object == other.object
        constant = not one.symbol and not other.symbol
        assert overlap(one, other) is (same and constant and bool(columns[0] & columns[1]))
        known = constant and one.bytes is not None and other.bytes is not None
        assert _may_meet(one, other) is (same and (not known or bool(columns[0] & columns[1])))


@pytest.mark.parametrize(("rows", "expected"), [(64, []), (128, ["tcgen05.write-in-flight"])])
def test_an_mma_of_64_rows_leaves_half_of_the_lanes(rows: int, expected: list[str]) -> None:
    """D is in 16 lanes of each warp (PTX ISA 9.7.16.10.5, layout F): the others may be stored meanwhile."""
    k = new()
    done = k.mbarrier.array(1, 1)
    k.mbarrier.ready()
    with k.tcgen05.tmem(COLUMNS) as tmem:
        with k.one_thread(0):
            k.tcgen05.mma(F16, tmem, 0, 0, replace(SHAPE, m=rows), accumulate=False)
            k.tcgen05.commit(done)
        with k.if_(k.warp_id() == 0):
            k.tcgen05.st(tmem.lanes(16), "16x64b", [0] * 2)
            k.tcgen05.wait_st()
        k.mbarrier.wait(done, 0)
    assert told(k) == expected


SIGNALS = re.compile(
    r"atom\.|bar\.|barrier\.|red\.|st\.|stmatrix\.|wmma\.store|tensormap\.|griddepcontrol\.launch"
    r"|multimem\.(red|st)\.|mbarrier\.(arrive|complete_tx|expect_tx)|cp\.async\.mbarrier\.arrive"
    r"|ld\.(volatile|relaxed|acquire)"
)
"""What other warps can see of a warp, from which they may know how far it has come: what it stores or arrives with.

A copy that runs on by itself tells nothing of it, nor does what the tensor core arrives with.
"""
FAMILIES = (
    *("load_store", "cp_async", "async_store", "matrix_move", "tcgen05_memory", "cache_control", "launch_control"),
    *("mbarrier", "mbarrier_phases", "sync", "cluster", "warp", "tma"),
)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_may_tell_other_warps_of_this_one(family: str) -> None:
    for row in catalogue.FAMILIES[family]():
        assert _signals(row.semantics) is (SIGNALS.match(row.ptx) is not None), row.ptx


def test_each_instruction_is_what_its_name_says() -> None:
    for row in catalogue.rows():
        instr, name = MachineInstr(row.opcode, row), row.ptx
        assert row.semantics.is_of_tensor_memory is name.startswith("tcgen05."), name
        assert is_mma(instr) is name.startswith("tcgen05.mma."), name
        assert is_commit(instr) is name.startswith("tcgen05.commit."), name
        waits = re.match(r"bar(rier)?\.(?!warp).*(sync|red|cluster\.wait)", name)
        assert is_barrier(instr) is (waits is not None), name
