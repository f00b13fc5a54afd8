"""Asynchronous copies in kernels, against NumPy: cp.async, bulk copies, TMA, stores into peers, tensor maps."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f16, f32
from tests.simulator.calls.bodies import rules, run

READY = "@%p0 mbarrier.init.shared.b64 [%r2], 1; fence.mbarrier_init.release.cluster; bar.sync 0;"
WAIT = "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra W;"
DUMP = """
mov.u32 %r20, %cluster_ctarank; mov.u32 %r21, {bytes}; mul.lo.u32 %r20, %r20, %r21; cvt.u64.u32 %rd20, %r20;
add.u64 %rd20, %rd20, %rd0; shl.b32 %r22, %r0, 2;
D: setp.ge.u32 %p9, %r22, {bytes};
@%p9 bra E; add.u32 %r23, %r22, %r1; ld.shared.u32 %r24, [%r23]; cvt.u64.u32 %rd21, %r22;
add.u64 %rd22, %rd20, %rd21; st.global.u32 [%rd22], %r24; add.u32 %r22, %r22, 128; bra D;
E:
"""
"""Shared memory to the array %rd0, by 32 threads."""


def dump(bytes):
    return DUMP.format(bytes=bytes)


def test_cp_async_fills_up_with_zeros():
    body = """
shl.b32 %r3, %r0, 4; add.u32 %r4, %r3, %r1; cvt.u64.u32 %rd5, %r3; add.u64 %rd6, %rd5, %rd1;
cp.async.cg.shared.global [%r4], [%rd6], 16;
cp.async.commit_group;
setp.lt.u32 %p1, %r0, 16; and.b32 %r5, %r0, 15;
cp.async.ca.shared.global [%r4+512], [%rd6], 16, %r5;
cp.async.ca.shared.global.L2::128B [%r4+1024], [%rd6], 16, %p1;
cp.async.wait_all;
bar.warp.sync -1;
""" + dump(1536)  # fmt: skip
    source = np.arange(1, 129, dtype=np.uint32) * 0x01010101
    found = np.zeros(1536, np.uint8)
    run(body.replace("bar.warp.sync -1;", "bar.sync 0;"), found, source)
    rows = source.view(np.uint8).reshape(32, 16)
    assert np.array_equal(found[:512].reshape(32, 16), rows)
    assert np.array_equal(
        found[512:1024].reshape(32, 16), np.where(np.arange(16) < np.arange(32)[:, None] % 16, rows, 0)
    )
    assert np.array_equal(found[1024:].reshape(32, 16), np.where(np.arange(32)[:, None] < 16, 0, rows))


@pytest.mark.parametrize(("size", "brought"), [("", 16), (" 4,", 4)])
def test_a_cache_policy_is_no_size(size, brought):
    body = f"""
mov.b64 %rd2, 8;
@%p0 cp.async.cg.shared.global.L2::cache_hint [%r1], [%rd1], 16,{size} %rd2;
cp.async.wait_all; bar.sync 0;""" + dump(16)
    found = np.zeros(16, np.uint8)
    run(body, found, np.full(4, 0x01010101, np.uint32))
    assert found.tolist() == [1] * brought + [0] * (16 - brought)


TILE = nvb.TensorMap(f16, box=(16, 64), swizzle=128)


@pytest.mark.parametrize(("column", "row"), [(0, 0), (64, 8), (8, 20), (-8, -4)])
def test_a_box_of_a_tensor_is_swizzled(column, row):
    body = f"""{READY}
@!%p0 bra W;
mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 2048;
cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd1, {{{column}, {row}}}], [%r2];
{WAIT}{dump(2048)}"""
    array = np.random.default_rng(1).integers(-99, 99, (24, 96)).astype(np.float16)
    found = np.zeros((16, 8, 8), np.float16)
    run(body, found, TILE.bind(array))
    whole = np.zeros((60, 200), np.float16)
    whole[20:44, 40:136] = array
    expected = whole[20 + row : 36 + row, 40 + column : 104 + column].reshape(16, 8, 8)
    for line in range(16):
        for chunk in range(8):
            assert np.array_equal(found[line, chunk ^ line % 8], expected[line, chunk]), (line, chunk)


def test_a_multicast_reaches_each_cta_of_the_mask():
    body = f"""{READY}
barrier.cluster.arrive; barrier.cluster.wait;
mov.u32 %r5, %cluster_ctarank; setp.eq.u32 %p3, %r5, 1; and.pred %p3, %p3, %p0; mov.u16 %h1, 5;
mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 128;
@%p3 cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
 [%r1], [%rd1, {{32}}], [%r2], %h1;
and.b32 %r6, %r5, 1; setp.ne.u32 %p4, %r6, 0;
@%p4 bra END;
{WAIT}{dump(128)}
END:
barrier.cluster.arrive; barrier.cluster.wait;"""
    body = body.replace("mbarrier.arrive.expect_tx", "@%p0 mbarrier.arrive.expect_tx")
    array = np.arange(96, dtype=np.float32)
    found = np.zeros((4, 32), np.float32)
    run(body, found, nvb.TensorMap(f32, box=(32,), swizzle=0).bind(array), cluster=4)
    assert np.array_equal(found, [array[32:64], np.zeros(32), array[32:64], np.zeros(32)])


@pytest.mark.parametrize("reads", ["", ".read"])
def test_a_box_is_stored_and_its_edges_are_cut(reads):
    body = f"""
shl.b32 %r3, %r0, 2; add.u32 %r4, %r3, %r1; cvt.rn.f32.u32 %f1, %r0; st.shared.f32 [%r4], %f1;
fence.proxy.async.shared::cta; bar.sync 0;
@%p0 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd0, {{4, 1}}], [%r1];
@%p0 cp.async.bulk.commit_group;
@%p0 cp.async.bulk.wait_group 0;
@%p0 cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%rd0, {{4, 1}}], [%r1];
@%p0 cp.async.bulk.commit_group;
@%p0 cp.async.bulk.wait_group{reads} 0;
"""
    array = np.full((4, 8), -1, np.float32)
    run(body, nvb.TensorMap(f32, box=(4, 8), swizzle=0).bind(array))
    expected = np.full((4, 8), -1, np.float32)
    expected[1:4, 4:] = 2 * np.arange(32).reshape(4, 8)[:3, :4]
    assert np.array_equal(array, expected)


@pytest.mark.parametrize(
    "store", ["cp.async.bulk.tensor.2d.global.shared::cta", "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add"]
)
def test_a_box_outside_of_the_tensor_is_stored_nowhere(store):
    body = f"""
shl.b32 %r3, %r0, 2; add.u32 %r4, %r3, %r1; st.shared.u32 [%r4], %r0; fence.proxy.async.shared::cta; bar.sync 0;
@%p0 {store}.tile.bulk_group [%rd0, {{8, 0}}], [%r1];
@%p0 cp.async.bulk.commit_group;
@%p0 cp.async.bulk.wait_group 0;
"""
    array = np.full((4, 8), -1, np.float32)
    run(body, nvb.TensorMap(f32, box=(4, 8), swizzle=0).bind(array))
    assert (array == -1).all()


def test_bytes_go_to_a_peer_and_are_added_there():
    body = f"""@%p0 mbarrier.init.shared.b64 [%r2], 1; fence.mbarrier_init.release.cluster;
shl.b32 %r3, %r0, 2; add.u32 %r4, %r3, %r1; mov.u32 %r5, 100; st.shared.u32 [%r4], %r5; st.shared.u32 [%r4+128], %r0;
fence.proxy.async; barrier.cluster.arrive; barrier.cluster.wait;
mov.u32 %r6, %cluster_ctarank; xor.b32 %r6, %r6, 1;
mapa.shared::cluster.u32 %r7, %r1, %r6; mapa.shared::cluster.u32 %r8, %r2, %r6;
@!%p0 bra W;
mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 256; add.u32 %r9, %r1, 128; add.u32 %r10, %r7, 256;
cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%r7], [%r9], 128, [%r8];
cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r10], [%r9], 128, [%r8];
{WAIT}
barrier.cluster.arrive; barrier.cluster.wait;
{dump(384)}"""
    found = np.zeros((2, 96), np.uint32)
    run(body, found, cluster=2)
    lanes = np.arange(32)
    assert np.array_equal(found, np.tile(np.concatenate([100 + lanes, lanes, lanes]), (2, 1)))


def test_a_map_is_made_of_zeros():
    """As Triton makes its own: every field of zeros in shared memory, then copied to global memory."""
    fields = [
        *("global_address.shared::cta.b1024.b64 [%rd7], %rd1", "rank.shared::cta.b1024.b32 [%rd7], 1"),
        *("box_dim.shared::cta.b1024.b32 [%rd7], 0, 8", "box_dim.shared::cta.b1024.b32 [%rd7], 1, 4"),
        *("global_dim.shared::cta.b1024.b32 [%rd7], 0, 8", "global_dim.shared::cta.b1024.b32 [%rd7], 1, 6"),
        "global_stride.shared::cta.b1024.b64 [%rd7], 0, 32",
        *("element_stride.shared::cta.b1024.b32 [%rd7], 0, 1", "element_stride.shared::cta.b1024.b32 [%rd7], 1, 1"),
        *("elemtype.shared::cta.b1024.b32 [%rd7], 7", "interleave_layout.shared::cta.b1024.b32 [%rd7], 0"),
        *("swizzle_mode.shared::cta.b1024.b32 [%rd7], 0", "fill_mode.shared::cta.b1024.b32 [%rd7], 0"),
    ]
    body = f"""{READY}
shl.b32 %r3, %r0, 2; add.u32 %r5, %r3, %r1; mov.u32 %r4, 0; st.shared.u32 [%r5+4096], %r4; bar.sync 0;
add.u32 %r6, %r1, 4096; cvt.u64.u32 %rd7, %r6;
{" ".join(f"@%p0 tensormap.replace.tile.{field};" for field in fields)}
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd2], [%rd7], 128;
fence.proxy.tensormap::generic.acquire.gpu [%rd2], 128;
@!%p0 bra W;
mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 128;
cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd2, {{0, 3}}], [%r2];
{WAIT}{dump(128)}"""
    found, source = np.zeros(32, np.float32), np.arange(48, dtype=np.float32)
    run(body, found, source, np.zeros(128, np.uint8))
    assert found.tolist() == [*range(24, 48), *[0] * 8]


def test_fields_of_a_map_are_replaced_in_shared_memory_and_published():
    body = f"""{READY}
shl.b32 %r3, %r0, 2; cvt.u64.u32 %rd5, %r3; add.u64 %rd6, %rd5, %rd1; ld.param.u32 %r4, [a1];
ld.global.u32 %r4, [%rd6]; add.u32 %r5, %r3, %r1; st.shared.u32 [%r5+4096], %r4; bar.sync 0;
add.u32 %r6, %r1, 4096; cvt.u64.u32 %rd7, %r6;
@%p0 tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%rd7], %rd2;
@%p0 tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%rd7], 0, 16;
bar.sync 0;
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd3], [%rd7], 128;
fence.proxy.tensormap::generic.acquire.gpu [%rd3], 128;
@!%p0 bra W;
mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 128;
cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd3, {{0}}], [%r2];
{WAIT}{dump(128)}"""
    body = body.replace("ld.param.u32 %r4, [a1];\n", "\n").replace("ld.global.u32 %r4", "ld.u32 %r4")
    old, new, room = np.zeros(32, np.float32), np.arange(64, dtype=np.float32), np.zeros(128, np.uint8)
    found = np.zeros(32, np.float32)
    run(body, found, nvb.TensorMap(f32, box=(32,), swizzle=0).bind(old), new, room)
    assert np.array_equal(found, np.where(np.arange(32) < 16, np.arange(32), 0))


LOAD = "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1{at}], [%rd0, {{{x}, {y}}}], [%r2];"
WRONG = {
    "start": (LOAD.format(at="", x=4, y=0), "simulator.tma-place"),
    "place": (LOAD.format(at="+64", x=0, y=0), "simulator.tma-place"),
    "size": (
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 24, [%r2];",
        "simulator.copy-size",
    ),
    "no map": (LOAD.format(at="", x=0, y=0).replace("%rd0", "%rd1"), "simulator.tensor-map"),
    "no mbarrier": (LOAD.format(at="", x=0, y=0).replace("%r2]", "%r1]"), "mbarrier.uninitialised"),
    "outside of the array": (
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1+1024], 16, [%r2];",
        "simulator.bounds",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_the_hardware_stops_at_has_its_rule(case):
    line, rule = WRONG[case]
    body = f"{READY}\n@!%p0 bra END;\n{line}\nEND:"
    given = TILE.bind(np.zeros((16, 64), np.float16)), np.zeros(256, np.uint32)
    assert rules(body, *given) == [(rule, 2)]


def test_a_store_before_the_tensor():
    body = "@%p0 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd0, {0, -1}], [%r1];"
    assert rules(body, TILE.bind(np.zeros((16, 64), np.float16))) == [("simulator.tma-place", 0)]


def test_a_map_of_an_array_is_checked_as_for_the_driver():
    array = np.zeros((16, 60), np.float16)
    assert [rule for rule, _ in rules("", TILE.bind(array))] == ["tensor-map.stride"]
    assert [rule for rule, _ in rules("", TILE.bind(np.zeros((16, 64), np.float32)))] == ["launch.dtype"]
