"""Calls of one instruction each: what they print, and what they refuse."""

from __future__ import annotations

import itertools
import re

import pytest

import nvbackend as nvb
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.row.types import f32, s8, u8, u16, u32, u64
from nvbackend.signature import Parameter, Pointer
from tests.support.said import rule_here


class Using:
    """A kernel with memory of each kind and a barrier."""

    def __init__(self, target="sm_90a", cluster=2):
        self.k = KernelBuilder("use", target, threads=128, cluster=cluster, parameters=[Parameter("out", Pointer(u32))])
        (self.out,) = self.k.arguments
        self.shared = self.k.shared(u8, 1024, align=128)
        self.barrier = self.k.shared(u64, 1, align=8)

    def ptx(self):
        return re.sub(r"[ \t]+", " ", self.k.finish(check=False).compile().ptx)


def test_barriers_fences_and_grids():
    u = Using()
    k = u.k
    k.griddepcontrol("wait")
    k.mbarrier.init(u.barrier, 256)
    k.mbarrier.ready()
    k.mbarrier.arrive(u.barrier, rank=1, qualifiers=("release", "cluster"))
    k.mbarrier.arrive(u.barrier, count=2, drop=True)
    u.out[0] = k.mbarrier.pending_count(k.mbarrier.arrive(u.barrier, count=1, no_complete=True))
    k.mbarrier.expect_tx(u.barrier, 64)
    k.mbarrier.complete_tx(u.barrier, 64, scope="cluster", rank=k.cluster.rank())
    k.mbarrier.inval(u.barrier)
    k.barrier.arrive(3, 128)
    k.barrier.sync(3, 128, aligned=False)
    k.warp.sync()
    k.cluster.arrive("relaxed")
    k.cluster.wait()
    k.fence.shared("acquire")
    k.fence.proxy_alias()
    k.fence.membar("gl")
    k.nanosleep(20)
    u.out[1] = k.cluster.rank_of(k.cluster.map_to_peer(u.shared.bytes, 1))
    text = u.ptx()
    for spelling in (
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [",
        "mbarrier.arrive_drop.shared::cta.b64 _, [",
        "mbarrier.arrive.noComplete.shared.b64 %",
        "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [",
        *("mbarrier.inval.shared.b64 [", "bar.arrive 3, 128;", "barrier.sync 3, 128;", "bar.warp.sync -1;"),
        *("barrier.cluster.arrive.relaxed.aligned;", "barrier.cluster.wait.aligned;"),
        "fence.acquire.sync_restrict::shared::cluster.cluster;",
        *("fence.proxy.alias;", "membar.gl;", "griddepcontrol.wait;", "nanosleep.u32 20;"),
        "getctarank.shared::cluster.u32 %",
    ):
        assert spelling in text, spelling


def test_caches_policies_clearing_and_packing():
    u = Using("sm_100a", cluster=1)
    k = u.k
    line = k.global_address(u.out._base, u8, 128)
    k.cache.prefetch(u.out, "L2::evict_last")
    k.cache.prefetch(u.out.bytes.bitcast(u64), "L1", space="local")
    k.cache.prefetch_uniform(u.out.bytes.bitcast(u64))
    k.cache.apply_priority(line)
    k.cache.discard(line)
    policy = k.cache.policy_of_range(u.out, 64, 128, "L2::evict_last", "L2::evict_first")
    k.cp_async.copy(u.shared, u.out, 16, cache_policy=policy)
    k.cp_async.copy(u.shared, u.out, 4, ignore=k.thread_id() == 3)
    k.cp_async.wait_group()
    k.bulk.clear_shared(u.shared, 64)
    k.fence.proxy_async()
    full = k.mbarrier.array(1, 1)
    k.mbarrier.ready()
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=64)
        k.bulk.load(u.shared, u.out, 64, full, cache_policy=k.cache.policy_of_property(0))
    k.mbarrier.wait(full, 0)
    u.out[0] = k.math.permute_bytes(k.math.pack_pair("f16x2", 1.0, k.thread_id().to(f32), relu=True), 7, 0x3210)
    value, inside = k.warp.shuffle(k.thread_id().to(u32), "down", 1, in_range=True)
    mask, equal = k.warp.match("all", value, equal=True)
    u.out[1] = k.select(inside & equal, mask, value)
    k.async_store.store(u.out, value, element="b32")
    k.async_store.store(u.out, value.to(s8))
    k.async_store.store(u.out, value.to(u16), element="b8")
    text = u.ptx()
    for spelling in (
        *("prefetch.global.L2::evict_last [", "prefetch.local.L1 [", "prefetchu.L1 ["),
        *("applypriority.global.L2::evict_normal [", "discard.global.L2 ["),
        *("createpolicy.range.global.L2::evict_last.L2::evict_first.b64 %", "createpolicy.cvt.L2.b64 %"),
        *("cp.async.ca.shared.global.L2::cache_hint [", "st.bulk.shared::cta ["),
        "mbarrier::complete_tx::bytes.L2::cache_hint [",
        *("cvt.rn.relu.f16x2.f32 %", "prmt.b32 %", "shfl.sync.down.b32 %", "match.all.sync.b32 %"),
        *("st.async.release.gpu.global.b32 [", "st.async.release.gpu.global.s8 [", "st.async.release.gpu.global.b8 ["),
    ):
        assert spelling in text, spelling


ON_A_BARRIER = {
    "cp_async_arrive": lambda u, at: u.k.cp_async.mbarrier_arrive(at),
    "mbarrier_arrive_state": lambda u, at: u.k.mbarrier.arrive(at, state=True),
    "mbarrier_test": lambda u, at: u.k.mbarrier.test(at),
    "store_async": lambda u, at: u.k.async_store.store(u.shared, [u.k.thread_id()], at, 0),
    "reduce_async": lambda u, at: u.k.async_store.reduce(u.shared, "add", u.k.thread_id(), at, 0),
    "try_cancel": lambda u, at: u.k.launch_control.try_cancel(u.shared, at),
    "bulk_load": lambda u, at: u.k.bulk.load(u.shared, u.out, 16, at),
    "bulk_copy_peer": lambda u, at: u.k.bulk.store(u.shared, u.shared, 16, barrier=at, rank=0),
    "bulk_reduce_peer": lambda u, at: u.k.bulk.reduce(u.shared, u.shared, 16, "add", u32, barrier=at, rank=0),
    "tcgen05_commit": lambda u, at: u.k.tcgen05.commit(at),
}


@pytest.mark.parametrize("call", ON_A_BARRIER.values(), ids=ON_A_BARRIER)
def test_what_completes_on_a_barrier_wants_one(call):
    u = Using("sm_100a")
    call(u, u.barrier)
    for place in (u.out, u.shared.byte_offset(4)):
        assert rule_here(lambda at=place: call(u, at)) == "mbarrier.address"


@pytest.mark.parametrize("size", range(-16, 33))
def test_what_st_bulk_clears(size):
    """PTX ISA 9.7.9 (st.bulk): a multiple of 8 bytes, of which 0 is one for ptxas."""
    u = Using("sm_100a")
    if size < 0 or size % 8:
        rule = "value.constant" if size < 0 else "cache.cleared"
        assert rule_here(lambda: u.k.bulk.clear_shared(u.shared, size)) == rule
    else:
        u.k.bulk.clear_shared(u.shared, size)


def test_what_can_not_be_is_told_by_its_rule():
    u = Using("sm_100a")
    k = u.k
    assert rule_here(lambda: k.cache.discard(u.out)) == "cache.line"
    assert rule_here(lambda: k.cache.apply_priority(u.out)) == "cache.line"
    assert rule_here(lambda: k.cache.policy_of_range(u.out, 256, 128, "L2::evict_last")) == "cache.policy-range"
    assert rule_here(lambda: k.bulk.clear_shared(u.shared, 12)) == "cache.cleared"
    assert rule_here(lambda: k.bulk.clear_shared(u.shared.byte_offset(4), 16)) == "cache.cleared"
    assert rule_here(lambda: k.nanosleep(2_000_000)) == "nanosleep.range"
    assert rule_here(lambda: k.barrier.arrive(16, 32)) == "barrier.id"
    assert rule_here(lambda: k.barrier.arrive(1, 33)) == "barrier.threads"
    assert rule_here(lambda: k.barrier.arrive(1, k.threads + 32)) == "barrier.waits"
    assert rule_here(lambda: k.mbarrier.expect_tx(u.barrier, -1)) == "mbarrier.expect-tx"
    assert rule_here(lambda: k.mbarrier.complete_tx(u.out, 16)) == "mbarrier.address"
    assert rule_here(lambda: k.mbarrier.arrive(u.barrier, count=0, no_complete=True)) == "mbarrier.count"
    assert rule_here(lambda: k.mbarrier.arrive(u.barrier, expect_tx=1 << 20)) == "mbarrier.expect-tx"
    assert rule_here(lambda: k.mbarrier.inval(u.shared.byte_offset(4))) == "mbarrier.address"
    for call in (
        lambda: k.mbarrier.arrive(u.barrier, count=1, expect_tx=16),
        lambda: k.mbarrier.arrive(u.barrier, rank=1, state=True),
        lambda: k.mbarrier.arrive(u.barrier, when=True, state=True),
        lambda: k.mbarrier.arrive(u.barrier, no_complete=True),
        lambda: k.mbarrier.arrive(u.barrier, count=1, expect_tx=16, no_complete=True),
        lambda: k.mbarrier.complete_tx(u.barrier, 1, scope="gpu"),
        lambda: k.cluster.wait("release"),
        lambda: k.fence.shared("sc"),
        lambda: k.fence.membar("gpu"),
        lambda: k.griddepcontrol("go"),
        lambda: k.cache.prefetch(u.out, "L3"),
        lambda: k.math.pack_pair("f32x2", 1.0, 2.0),
        lambda: k.bulk.load(u.shared, u.out, 16, u.barrier, space="cta", multicast_mask=3),
        lambda: k.bulk.reduce(u.shared, u.shared, 16, "add", "f32", barrier=u.barrier, rank=1),
        lambda: k.async_store.store(u.out, k.thread_id(), scope="cta"),
        lambda: k.launch_control.canceled_coordinate(u.shared, "w"),
        lambda: k.async_store.store(u.out, [k.thread_id()] * 2),
        lambda: k.bulk.store(u.shared, u.shared, 16, rank=1),
        lambda: k.bulk.store(u.shared, u.shared, 16, barrier=u.barrier),
        lambda: k.bulk.store(u.shared, u.shared, 16, barrier=u.barrier, rank=1, byte_mask=1),
        lambda: k.bulk.reduce(u.shared, u.shared, 16, "add", "u32", rank=1),
        lambda: k.warp.match("any", k.thread_id(), equal=True),
    ):
        assert rule_here(call) == "instruction.variant"


@pytest.mark.parametrize("given", [*itertools.product([False, True], repeat=4)], ids=str)
@pytest.mark.parametrize("space", ["shared", "out"])
def test_which_operands_a_store_to_each_space_takes(space, given):
    """PTX ISA 9.7.9 (st.async): shared memory takes a barrier and its CTA, global memory a scope, with mmio or not."""
    u = Using("sm_100a")
    barrier, rank, any_scope, mmio = given
    more = {"barrier": u.barrier} if barrier else {}
    more |= {"rank": 1} if rank else {}
    more |= {"scope": "sys"} if any_scope else {}
    more |= {"mmio": True} if mmio else {}

    def store():
        u.k.async_store.store(getattr(u, space), u.k.thread_id(), **more)

    legal = {"shared": [(True, True, False, False)], "out": [(False, False, any_scope, mmio and any_scope)]}
    if given in legal[space]:
        store()
    else:
        assert rule_here(store) == "instruction.variant"


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ({"cache_policy": 0}, "cache.policy"),
        ({"read_bytes": 17}, "async-copy.read-bytes"),
        ({"read_bytes": -1}, "async-copy.read-bytes"),
        ({"read_bytes": 0}, None),
        ({"read_bytes": 16}, None),
    ],
)
def test_numbers_of_cp_async_are_checked_at_the_call(more, rule):
    u = Using("sm_90a")
    if rule is None:
        u.k.cp_async.copy(u.shared, u.out, 16, **more)
    else:
        assert rule_here(lambda: u.k.cp_async.copy(u.shared, u.out, 16, **more)) == rule


def test_an_older_chip_is_told():
    u = Using("sm_90a")
    assert rule_here(lambda: u.k.bulk.clear_shared(u.shared, 64)) == "target.feature"
    assert rule_here(lambda: u.k.tcgen05.alloc(u.out.bytes.bitcast(u64), 32)) == "target.feature"
    assert rule_here(lambda: u.k.tcgen05.commit(u.out.bytes.bitcast(u64))) == "target.feature"


def test_a_rank_without_a_cluster_is_this_cta():
    k = nvb.KernelBuilder("alone", "sm_90a", threads=32)
    barrier = k.mbarrier.array(1, 2)
    k.mbarrier.ready()
    k.mbarrier.arrive(barrier, rank=k.cluster.rank(), when=k.thread_id() == 0)
    k.mbarrier.arrive(barrier, rank=k.thread_id(), count=1, when=k.thread_id() == 0)
    assert rule_here(lambda: k.mbarrier.arrive(barrier, rank=1)) == "cluster.rank"
    opcodes = [one.opcode for one in k.finish().machine.instructions()]
    assert opcodes.count("mbarrier.arrive") == 2
    assert "mapa" not in opcodes
