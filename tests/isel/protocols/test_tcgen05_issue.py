"""An operation of tcgen05 is started by one thread: several would start it as many times."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import Major, SmemLayout, SwizzleMode, f16, f32, i32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.copy import tcgen05_memory
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineInstr
from nvbackend.isel.protocols.tcgen05.issue import check_issue
from nvbackend.signature import Parameter, Scalar

TILE = SmemLayout(Major.K, SwizzleMode.B128, f16, 128, 64)
REQUEST = nvb.tcgen05.mma("m128n128k16", f16, f16, f32)


def multiply(k, tmem, tile, at=0):
    k.tiled_mma(REQUEST).accumulate(tmem.columns(at, 128), tile, tile, accumulate=False)


def copy(k, tmem, tile, at=0):
    layout = nvb.Tcgen05SmemDescriptor(0, 2048, 128, swizzle=nvb.Tcgen05Swizzle.NONE)
    k.tcgen05.cp(tmem.columns(at, 32), k.tcgen05.smem_descriptor(tile.address, layout), "128x256b")


def shift(k, tmem, tile, at=0):
    k.tcgen05.shift(tmem.columns(at, 32))


def found(where, started=multiply, at=lambda k: 0):
    """What is said of the operation in the block of a kernel of 128 threads, and how often that many start it."""
    k = KernelBuilder("issue", "sm_100a", threads=128, parameters=[Parameter("n", Scalar(i32))])
    tile = k.shared_tile(TILE)
    try:
        with k.tcgen05.tmem(256) as tmem, where(k):
            started(k, tmem, tile, at(k))
        k.finish(check=False)
    except nvb.DiagnosticError as error:
        said = [(one.rule_id, one.values.get("threads")) for one in error.diagnostics]
        return [one for one in said if one[0] == "tcgen05.one-thread"]
    return []


@pytest.mark.parametrize("started", [multiply, copy, shift])
@pytest.mark.parametrize(
    ("where", "threads"),
    [
        (lambda k: k.if_(k.warp_id() == 1), 32),
        (lambda k: k.if_(k.lane_id() == 0), 4),
        (lambda k: k.if_(k.elect()), 4),
        (lambda k: k.range(3), 128),
    ],
)
def test_several_threads_start_the_same_operation(started, where, threads):
    assert found(where, started) == [("tcgen05.one-thread", threads)]


@pytest.mark.parametrize("started", [multiply, copy, shift])
@pytest.mark.parametrize(
    "where",
    [
        lambda k: k.one_thread(2),
        lambda k: k.if_(k.thread_id() == 77),
        lambda k: k.if_(k.thread_id() == k.arguments[0]),
    ],
)
def test_one_thread_starts_it_or_nobody_can_count_them(started, where):
    assert found(where, started) == []


def test_threads_that_start_operations_of_their_own():
    assert found(lambda k: k.if_(k.lane_id() == 0), at=lambda k: k.warp_id() % 2 * 128) == []


def test_the_machine_form_is_asked_too():
    row, target = tcgen05_memory.shift(1), nvb.Target.parse("sm_100a")
    for known, wrong in (({facts.SAME: 1, facts.THREADS: 2}, True), ({facts.THREADS: 2}, False), ({}, False)):
        instr = MachineInstr(row.opcode, row, facts=known)
        assert [one.rule_id for one in check_issue(instr, target)] == ["tcgen05.one-thread"] * wrong
    commit = tcgen05_memory.commit(1)
    many = MachineInstr(commit.opcode, commit, facts={facts.SAME: 1, facts.THREADS: 32})
    assert list(check_issue(many, target)) == []
