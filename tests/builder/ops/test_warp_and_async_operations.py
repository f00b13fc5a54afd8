"""Single instructions of warps, asynchronous copies, barriers and caches from the builder."""

from __future__ import annotations

import re

import pytest

import nvbackend as nvb
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.row.types import f32, s32, u8, u32
from nvbackend.signature import Parameter, Pointer
from tests.support.barriers import barrier_of_somebody
from tests.support.said import rule_here


class Using:
    """A kernel with a pointer, shared memory and a barrier."""

    def __init__(self, target="sm_90a", cluster=1):
        self.k = KernelBuilder("use", target, threads=128, cluster=cluster, parameters=[Parameter("out", Pointer(u32))])
        (self.out,) = self.k.arguments
        self.shared = self.k.shared(u8, 1024, align=128)
        self.barrier = barrier_of_somebody(self.k)

    def ptx(self):
        return re.sub(r"[ \t]+", " ", self.k.finish(check=False).compile().ptx)


def test_lanes_exchange_vote_match_and_reduce():
    u = Using()
    k = u.k
    lane = k.thread_id().to(u32)
    total = (
        k.warp.shuffle(lane, "bfly", 1)
        + k.warp.vote("ballot", lane < 5)
        + k.warp.match("any", lane)
        + k.warp.active_lanes()
    )
    total = total + k.warp.reduce("xor", lane) + k.warp.reduce("max", lane)
    u.out[0] = k.select(k.warp.vote("all", lane < 64), total, lane)
    text = u.ptx()
    for spelling in (
        *("shfl.sync.bfly.b32", "vote.sync.ballot.b32", "vote.sync.all.pred", "match.any.sync.b32"),
        *("activemask.b32", "redux.sync.xor.b32", "redux.sync.max.u32"),
    ):
        assert f"{spelling} " in text


def told(body):
    k = KernelBuilder("use", "sm_90a", threads=128)
    try:
        body(k)
        k.finish()
    except nvb.DiagnosticError as error:
        return [one.rule_id for one in error.diagnostics]
    return []


@pytest.mark.parametrize("members", [0xFFFF, 0x1FFFF, 0xFF, 0xFF00FF, 0x8000FFFF, 0xFFFFFFFF, 0x7FFFFFFF])
def test_the_members_are_the_lanes_that_come(members):
    """Where all are named, the branch is to blame."""

    def body(k):
        with k.if_(k.lane_id() < 16):
            k.warp.reduce("add", k.thread_id(), members=members)

    wrong = "convergence.warp" if members == 0xFFFFFFFF else "warp.members"
    assert told(body) == [wrong] * (members != 0xFFFF)


@pytest.mark.parametrize("members", [0xFFFF, 0x1FFFF, 0xFF, 0x80000001, 0x7FFFFFFF])
@pytest.mark.parametrize("call", ["shuffle", "sync", "ballot"])
def test_the_members_are_lanes_that_may_come_where_data_decides(members, call):
    """Which threads come is not known then, but a branch on the lane keeps half of each warp away."""

    def body(k):
        n = k.clock().to(s32)
        with k.if_(n > 3), k.if_(k.lane_id() < 16):
            if call == "sync":
                k.warp.sync(members)
            elif call == "ballot":
                k.warp.ballot(n > 5, members=members)
            else:
                k.warp.shuffle(n, "bfly", 0, members=members)

    assert told(body) == ["warp.members"] * any(members >> lane & 1 for lane in range(16, 32))


def test_some_warp_may_have_all_the_members():
    def body(k):
        with k.if_(k.clock().to(s32) > 3), k.if_(k.thread_id() < 40):
            k.warp.shuffle(k.thread_id(), "bfly", 1, members=0x1FF)

    assert told(body) == []


MASKS = {
    "halves": (0xFFFF, lambda lane: lane // 16 * 16, True),
    "eights": (0xFF, lambda lane: lane // 8 * 8, True),
    "from each lane on": (0xFF, lambda lane: lane, False),
    "the other half": (0xFFFF, lambda lane: (1 - lane // 16) * 16, False),
    "halves that overlap": (0xFFFFF, lambda lane: lane // 16 * 12, False),
}


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("call", ["shuffle", "sync", "ballot", "match"])
def test_masks_that_the_lane_decides_are_looked_at_in_each(name, call):
    number, shift, right = MASKS[name]

    def body(k):
        members, t = k.const(number, u32) << shift(k.lane_id()).to(u32), k.thread_id()
        if call == "sync":
            k.warp.sync(members)
        elif call == "ballot":
            k.warp.ballot(t > 5, members=members)
        elif call == "match":
            k.warp.match("any", t, members=members)
        else:
            k.warp.shuffle(t, "bfly", 1, members=members)

    assert told(body) == ["warp.members"] * (not right)


def test_a_mask_that_the_lane_decides_may_be_of_those_that_come():
    def body(k, half):
        members = k.const(0xFFFF, u32) << (k.lane_id() // 16 * 16).to(u32)
        with k.if_(k.lane_id() // 16 == half):
            k.warp.ballot(k.thread_id() > 5, members=members)
        with k.if_(k.lane_id() < 8 * (half + 1)):
            k.warp.ballot(k.thread_id() > 5, members=members)

    assert told(lambda k: body(k, 0)) == ["warp.members"]
    assert told(lambda k: body(k, 1)) == []


def sender(mode, lane, b, width):
    """The lane that is read: the pseudocode of PTX ISA 9.7.9 (shfl.sync)."""
    mask, cval = 32 - width, 0 if mode == "up" else 31
    most, least = lane & mask | cval & ~mask, lane & mask
    j, holds = {
        "up": (lane - b, lane - b >= most),
        "down": (lane + b, lane + b <= most),
        "bfly": (lane ^ b, lane ^ b <= most),
        "idx": (least | b & ~mask, (least | b & ~mask) <= most),
    }[mode]
    return j if holds else lane


@pytest.mark.parametrize("mode", ["idx", "up", "down", "bfly"])
def test_some_member_is_read_from(mode):
    wrong = 0
    for width in (8, 16, 32):
        for members in (0x1, 0x100, 0xFF, 0xF0F0, 0xFFFF0000, 0xFFFFFFFF):
            for lane in (0, 1, 7, 8, 15, 16, 20):
                lanes = [one for one in range(32) if members >> one & 1]
                found = not any(sender(mode, one, lane, width) in lanes for one in lanes)

                def body(k, members=members, lane=lane, width=width):
                    with k.if_((k.const(members, u32) >> k.lane_id().to(u32)) & 1 == 1):
                        k.warp.shuffle(k.var(1.5), mode, lane, width=width, members=members)

                # All lanes come where all are named: then the branch is none.
                assert told(body) == ["warp.members"] * found, (width, members, lane)
                wrong += found
    assert wrong


def test_a_variable_is_exchanged_matched_and_reduced():
    u = Using()
    for value in (u.k.var(1), u.k.var(1, u32)):
        shuffled, reduced = u.k.warp.shuffle(value, "idx", 0), u.k.warp.reduce("add", value)
        assert (shuffled.type, reduced.type) == (value.type, value.type)
        assert u.k.warp.match("any", value).type is u32
    assert u.k.warp.shuffle(u.k.var(1.5), "idx", 0).type is f32
    assert "redux.sync.add.s32" in u.ptx()


def test_floats_are_exchanged_as_they_are():
    u = Using()
    k = u.k
    other, inside = k.warp.shuffle(u.out[1].bitcast(f32), "down", 1, in_range=True)
    total = k.warp.shuffle(other, "bfly", 1) + k.uniform(other)
    assert total.type is f32
    u.out[0] = k.select(inside, total, other).bitcast(u32)
    text = u.ptx()
    for spelling in ("shfl.sync.down.b32 ", "shfl.sync.bfly.b32 ", "shfl.sync.idx.b32 "):
        assert spelling in text


def test_matrices_move_between_registers_and_shared_memory():
    u = Using("sm_100a")
    k = u.k
    fragment = k.mma.ldmatrix(u.shared, 2, transposed=True)
    k.barrier.sync()  # every warp has read what all write
    k.mma.stmatrix(u.shared, [k.mma.movmatrix(one) for one in fragment])
    k.mma.stmatrix(u.shared, k.mma.ldmatrix(u.shared, 1, transposed=True, shape="m16n16", element="b8"))
    k.barrier.sync()
    k.mma.ldmatrix(u.shared, 4)
    text = u.ptx()
    assert "ldmatrix.sync.aligned.m8n8.x4.shared.b16" in text
    assert "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16" in text
    assert "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8" in text
    assert text.count("stmatrix.sync.aligned.m8n8.x2.shared.b16") == 2
    assert text.count("movmatrix.sync.aligned.m8n8.trans.b16") == 2


def test_asynchronous_copies_fill_with_zeros_and_arrive():
    u = Using()
    k = u.k
    k.cp_async.copy(u.shared, u.out, 16, cache="cg", prefetch=128)
    k.cp_async.copy(u.shared, u.out, 8, read_bytes=4)
    k.cp_async.copy(u.shared, u.out, 4, cache_policy=k.cache.policy("L2::evict_last", fraction=0.5))
    k.cp_async.commit_group()
    k.cp_async.wait_group(1)
    k.cp_async.wait_group()
    k.cp_async.mbarrier_arrive(u.barrier, no_increment=True)
    k.cache.prefetch(u.out, "L2::evict_last")
    text = u.ptx()
    for spelling in (
        "cp.async.cg.shared.global.L2::128B [",
        "cp.async.ca.shared.global [",
        "cp.async.ca.shared.global.L2::cache_hint [",
        "cp.async.commit_group;",
        "cp.async.wait_group 1;",
        "cp.async.wait_all;",
        "cp.async.mbarrier.arrive.noinc.shared.b64 [",
        "prefetch.global.L2::evict_last [",
    ):
        assert spelling in text


def test_phases_are_arrived_at_tested_and_counted():
    u = Using()
    k = u.k
    state = k.mbarrier.arrive(u.barrier, count=2, state=True)
    k.mbarrier.expect_tx(u.barrier, 16, scope="cta")
    late = k.mbarrier.arrive(u.barrier, expect_tx=16, drop=True, qualifiers=("relaxed", "cluster"), state=True)
    done = k.mbarrier.test(u.barrier, state=state) & k.mbarrier.test(
        u.barrier, state=late, blocking=True, sleep=100, qualifiers=("acquire", "cluster")
    )
    u.out[0] = k.select(done & k.mbarrier.test(u.barrier, parity=1), k.mbarrier.pending_count(state), 0)
    text = u.ptx()
    for spelling in (
        "mbarrier.arrive.shared.b64 ",
        "mbarrier.expect_tx.relaxed.cta.shared.b64 ",
        "mbarrier.arrive_drop.expect_tx.relaxed.cluster.shared.b64 ",
        "mbarrier.test_wait.shared.b64 ",
        "mbarrier.try_wait.acquire.cluster.shared.b64 ",
        "mbarrier.test_wait.parity.shared.b64 ",
        "mbarrier.pending_count.b64 ",
    ):
        assert spelling in text


def test_values_go_to_the_cluster_and_barriers_reduce():
    u = Using(cluster=2)
    k = u.k
    lane = k.thread_id()
    k.async_store.store(u.shared, [lane, lane + 1], u.barrier, 1)
    k.async_store.reduce(u.shared, "or", lane, u.barrier, 1)
    u.out[0] = k.select(k.barrier.reduce("and", lane < 7), k.barrier.reduce("popc", lane < 5), 0)
    k.fence.thread("release", "cluster")
    text = u.ptx()
    assert "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.s32 [" in text
    assert "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.or.b32 [" in text
    assert "bar.red.and.pred " in text
    assert "bar.red.popc.u32 " in text
    assert "fence.release.cluster;" in text


def test_the_work_of_another_cluster_is_taken_over():
    u = Using("sm_100a")
    k = u.k
    k.launch_control.try_cancel(u.shared, u.barrier)
    k.launch_control.try_cancel(u.shared, u.barrier, multicast=True)
    k.mbarrier.wait(u.barrier, 0)
    got, first = k.launch_control.canceled_cluster(u.shared)
    u.out[0] = k.select(got, first[0] + first[2], 0)
    text = u.ptx()
    assert "try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128" in text
    assert "query_cancel.is_canceled.pred.b128" in text
    assert "query_cancel.get_first_ctaid.v4.b32.b128" in text


def test_what_has_no_instruction_is_refused_at_the_call():
    u = Using()
    k = u.k
    lane = k.thread_id()
    for call in (
        lambda: k.warp.shuffle(lane, "across", 1),
        lambda: k.warp.vote("most", lane < 1),
        lambda: k.warp.match("any", lane.to(f32).to(s32).to(u8)),
        lambda: k.warp.reduce("max", lane, absolute=True),
        lambda: k.mma.ldmatrix(u.shared, 3),
        lambda: k.mma.stmatrix(u.shared, []),
        lambda: k.cp_async.copy(u.shared, u.out, 12),
        lambda: k.cp_async.copy(u.shared, u.out, 8, cache="cg"),
        lambda: k.mbarrier.arrive(u.barrier, count=1, expect_tx=16, state=True),
        lambda: k.mbarrier.test(u.barrier, sleep=10),
        lambda: k.async_store.store(u.shared, [lane] * 3, u.barrier, 0),
        lambda: k.async_store.reduce(u.shared, "mul", lane, u.barrier, 0),
        lambda: k.barrier.reduce("xor", lane < 1),
        lambda: k.fence.thread("acq_rel", "warp"),
        lambda: k.cache.prefetch(u.out, "L3"),
        lambda: k.cache.policy("L2::evict_never"),
    ):
        assert rule_here(call) == "instruction.variant"
    assert rule_here(lambda: k.warp.reduce(["add"], lane)) == "call.argument"
    assert rule_here(lambda: k.warp.reduce("max", lane.to(f32), absolute=True)) == "target.feature"
    assert rule_here(lambda: k.warp.reduce("mean", lane)) == "reduce.operation"
    assert rule_here(lambda: k.warp.reduce("and", lane.to(f32))) == "value.operation"
    assert rule_here(lambda: k.warp.reduce(lambda a, b: a < b, lane)) == "value.type"
    assert rule_here(lambda: k.warp.reduce(lambda a, b: (a[0], b[0], a[1]), (lane, lane))) == "value.type"
    assert rule_here(lambda: k.warp.reduce("add", lane, width=12)) == "shuffle.lanes"
    assert rule_here(lambda: k.warp.scan("add", lane, width=64)) == "shuffle.lanes"
    assert rule_here(lambda: k.launch_control.try_cancel(u.shared, u.barrier)) == "target.feature"
    assert rule_here(lambda: k.mbarrier.test(u.barrier, parity=2)) == "mbarrier.parity"
    assert rule_here(lambda: k.barrier.reduce("or", lane < 1, 16)) == "barrier.id"


@pytest.mark.parametrize("kind", ["numbers", "variables"])
def test_an_asynchronous_store_takes_numbers_and_variables(kind: str) -> None:
    k = nvb.KernelBuilder("stored", "sm_90a", threads=32, cluster=2)
    target, done = k.shared(nvb.u32, 2, align=8), k.mbarrier.array(1, 1)
    values = [1, 2] if kind == "numbers" else [k.var(1, nvb.s32), k.var(2, nvb.s32)]
    k.async_store.store(target, values, done, 0)
    opcodes = [instr.row.ptx for instr in k.machine.instructions() if instr.row is not None]
    assert "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.s32" in opcodes


def test_what_no_register_has_is_refused_by_an_asynchronous_store() -> None:
    k = nvb.KernelBuilder("stored", "sm_90a", threads=32, cluster=2)
    target, done = k.shared(nvb.u32, 2, align=8), k.mbarrier.array(1, 1)
    with pytest.raises(nvb.DiagnosticError, match=r"value\.kind"):
        k.async_store.store(target, [None, "x"], done, 0)


def test_what_a_broadcast_leaves_open():
    """Lane 0 of the whole warp (32 lanes: no segment mask, 31 as the last lane), by all lanes."""
    u = Using()
    u.out[0] = u.k.warp.broadcast(u.k.thread_id().to(u32))
    assert re.search(r"shfl\.sync\.idx\.b32 %r\d+(\|%p\d+)?, %r\d+, 0, 31, -1;", u.ptx())
