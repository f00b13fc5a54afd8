"""tcgen05 from Python: a kernel that ptxas assembles, and the ways to write one wrongly."""

from __future__ import annotations

import re

import pytest

import nvbackend as nvb
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.diagnostics import DiagnosticError
from nvbackend.intrinsics.row.types import e2m1, f16, f32, s32, u8, u32, u64, ue4m3
from nvbackend.intrinsics.words.tcgen05_descriptor import InstructionDescriptor, Tcgen05SmemDescriptor, Tcgen05Swizzle
from nvbackend.isel.select.tcgen05.request import Tcgen05Request
from nvbackend.signature import Parameter, Pointer

COLUMNS = 256
HALF = InstructionDescriptor(kind="f16", m=128, n=COLUMNS, a=f16, b=f16, d=f32)
LAYOUT = Tcgen05SmemDescriptor(0, 16, 1024, swizzle=Tcgen05Swizzle.B128)


def builder(target="sm_100a", cluster=1):
    k = KernelBuilder("blackwell", target, threads=128, cluster=cluster, parameters=[Parameter("out", Pointer(u32))])
    return k, k.arguments[0]


def fail(call):
    with pytest.raises(DiagnosticError) as error:
        call()
    first = error.value.diagnostics[0]
    assert first.location is not None
    assert first.location.file == __file__
    return [found.rule_id for found in error.value.diagnostics], first.message


@pytest.fixture
def k():
    return builder()[0]


def words(ptx):
    return re.findall(r"\btcgen05\.\S+", ptx)


def test_a_whole_kernel_assembles():
    k, out = builder()
    cell = k.shared(u32, 1)
    done = k.mbarrier.array(1, 1)
    tiles = k.shared(u8, 2 * 128 * 128, align=1024)
    warp = k.warp_id()
    with k.if_(warp == 0):
        k.tcgen05.alloc(cell, COLUMNS)
        k.tcgen05.relinquish_alloc_permit()
    k.mbarrier.ready()
    tmem = cell[0]
    with k.one_thread():
        a = k.tcgen05.smem_descriptor(tiles, LAYOUT)
        b = k.tcgen05.smem_descriptor(tiles.byte_offset(128 * 128), LAYOUT)
        for step in range(4):
            k.tcgen05.mma(Tcgen05Request("f16"), tmem, a + 2 * step, b + 2 * step, HALF, accumulate=step > 0)
        k.tcgen05.commit(done)
    k.mbarrier.wait(done, 0)
    k.tcgen05.fence_after_thread_sync()
    loads = [k.tcgen05.ld(tmem + (warp.to(u32) << 21) + column, "32x32b", 32) for column in (0, 32)]
    k.tcgen05.wait_ld(*loads)
    for index, value in enumerate(loads[0].values + loads[1].values):
        out[k.thread_id() * 64 + index] = value
    k.tcgen05.fence_before_thread_sync()
    k.barrier.sync()
    with k.if_(warp == 0):
        k.tcgen05.dealloc(tmem, COLUMNS)
    compiled = k.finish(check=False).compile()
    assert compiled.cubin
    assert words(compiled.ptx) == [
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32",
        "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;",
        *["tcgen05.mma.cta_group::1.kind::f16"] * 4,
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64",
        "tcgen05.fence::after_thread_sync;",
        *["tcgen05.ld.sync.aligned.32x32b.x32.b32"] * 2,
        "tcgen05.wait::ld.sync.aligned;",
        "tcgen05.fence::before_thread_sync;",
        "tcgen05.dealloc.cta_group::1.sync.aligned.b32",
    ]
    assert "idesc 0x0000000008400010" in str(k.machine)
    assert "idesc: kind f16, m 128, n 256" in str(k.machine)


def test_the_loaded_registers_leave_through_the_wait():
    k, out = builder()
    load = k.tcgen05.ld(0, "32x32b", 2)
    k.tcgen05.wait_ld(load)
    first, second = load.values
    out[0] = first + second
    text = k.finish().ir
    (waited,) = re.findall(r"(%\S+) = call .* asm .*tcgen05\.wait::ld", text)
    parts = re.findall(rf"(%\S+) = extractvalue .*{re.escape(waited)}, ", text)
    assert len(parts) == 2
    assert f"{parts[0]}, {parts[1]}" in text


def test_every_other_operation_assembles_for_a_pair():
    k, _ = builder(cluster=2)
    barrier = k.mbarrier.array(1, 1)
    k.mbarrier.ready()
    source = k.tcgen05.smem_descriptor(k.shared(u8, 4096, align=1024), LAYOUT)
    k.tcgen05.st(0, "16x64b", [1, 2], unpack=True)
    k.tcgen05.st(0, "16x32bx2", [3], half_split=16)
    k.tcgen05.wait_st()
    k.tcgen05.wait_ld(k.tcgen05.ld(0, "16x32bx2", 1, pack=True, half_split=8))
    with k.one_thread(), k.if_(k.cluster.rank() == 0):
        k.tcgen05.cp(0, source, "64x128b", "warpx2::01_23", unpack="b4x16_p64", cta_group=2)
        k.tcgen05.shift(0, cta_group=2)
        k.tcgen05.commit(barrier, cta_group=2, multicast_mask=3)
    compiled = k.finish(check=False).compile()
    assert compiled.cubin
    assert words(compiled.ptx) == [
        "tcgen05.st.sync.aligned.16x64b.x2.unpack::16b.b32",
        "tcgen05.st.sync.aligned.16x32bx2.x1.b32",
        "tcgen05.wait::st.sync.aligned;",
        "tcgen05.ld.sync.aligned.16x32bx2.x1.pack::16b.b32",
        "tcgen05.wait::ld.sync.aligned;",
        "tcgen05.cp.cta_group::2.64x128b.warpx2::01_23.b8x16.b4x16_p64",
        "tcgen05.shift.cta_group::2.down",
        "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64",
    ]


@pytest.mark.parametrize("element", [f32, u32, s32])
def test_a_reducing_load_assembles_where_it_is(element):
    k, out = builder("sm_103a")
    load = k.tcgen05.ld(0, "32x32b", 4, red="max", type=element)
    k.tcgen05.wait_ld(load)
    assert len(load.values) == 4
    assert load.reduced.type is element
    out[0] = load.reduced.bitcast(u32)
    compiled = k.finish(check=False).compile()
    assert compiled.cubin
    assert f"tcgen05.ld.red.sync.aligned.32x32b.x4.max.{element}" in compiled.ptx
    rules, _ = fail(lambda: builder()[0].tcgen05.ld(0, "32x32b", 4, red="max", type=element))
    assert rules == ["target.feature"]


def test_operands_of_every_kind_reach_the_instruction():
    k, _ = builder()
    done = k.mbarrier.array(1, 1)
    k.mbarrier.ready()
    nvfp4 = InstructionDescriptor(kind="mxf4nvf4", m=128, n=64, a=e2m1, b=e2m1, d=f32, scale=ue4m3, sparse=True)
    sparse = InstructionDescriptor(kind="f16", m=128, n=64, a=f16, b=f16, d=f32, sparse=True)
    stationary = InstructionDescriptor(kind="f16", m=64, n=64, a=f16, b=f16, d=f32)
    scaled = Tcgen05Request("mxf4nvf4", sparse=True, block_scale=True, scale_vector="block16", collector="a::use")
    masked = Tcgen05Request("f16", a_in_tmem=True, sparse=True, scale_input_d=True, disable_output_lane=True)
    zeroed = Tcgen05Request("f16", weight_stationary=True, zero_column_mask=True, collector="b1::fill")
    with k.one_thread():
        k.tcgen05.mma(scaled, 7, 16, 32, nvfp4, metadata=64, scale_a=65, scale_b=66)
        k.tcgen05.mma(masked, 8, 128, 32, sparse, metadata=64, output_lanes=[1, 2, 3, 4], scale_input_d=5)
        k.tcgen05.mma(zeroed, 9, 16, 32, stationary, accumulate=False, zero_column_mask=1 << 40)
        k.tcgen05.commit(done)
    compiled = k.finish(check=False).compile()
    assert compiled.cubin
    assert words(compiled.ptx) == [
        "tcgen05.mma.sp.cta_group::1.kind::mxf4nvf4.block_scale.block16.collector::a::use",
        "tcgen05.mma.sp.cta_group::1.kind::f16",
        "tcgen05.mma.ws.cta_group::1.kind::f16.collector::b1::fill",
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64",
    ]
    # PTX ISA 9.7.16.10.9.1: D, A, B, metadata, idesc, scale-A, scale-B or lanes, enable-input-d, scale-input-d
    assert [operands_of(line, compiled.ptx) for line in re.findall(r"tcgen05\.mma\S+ [^;]+;", compiled.ptx)] == [
        [7, 16, 32, 64, nvfp4.encode(), 65, 66, -1],
        [8, 128, 32, 64, sparse.encode(), 1, 2, 3, 4, -1, 5],
        [9, 16, 32, stationary.encode(), 0, 1 << 40],
    ]


def operands_of(instruction, ptx):
    """The numbers of an instruction, of whose registers each was given one number."""
    given = dict(re.findall(r"mov\.(?:b32|b64|pred)\s+(%\w+), (-?\d+);", ptx))
    return [int(given.get(one, one)) for one in re.findall(r"%\w+|-?\b\d+", instruction.partition(" ")[2])]


def test_registers_are_not_read_before_the_wait(k):
    load = k.tcgen05.ld(0, "32x32b", 2)
    assert fail(lambda: load.values)[0] == ["tcgen05.read-before-wait"]
    k.tcgen05.wait_ld()
    assert fail(lambda: load.reduced)[0] == ["tcgen05.read-before-wait"]
    assert fail(lambda: load[0])[0] == ["tcgen05.read-before-wait"]
    k.tcgen05.wait_ld(load)
    assert len(load.values) == 2
    assert [load[index].ir for index in range(2)] == [value.ir for value in load.values]


@pytest.mark.parametrize("lanes", [False, True])
@pytest.mark.parametrize("count", [16, 32, 64])
def test_a_load_or_store_stays_within_its_part(k, count, lanes):
    with k.tcgen05.tmem(128) as tmem:
        part = tmem.columns(64, 32)
        place = part.lanes(32 * k.warp_id()) if lanes else part
        for call in (
            lambda: k.tcgen05.wait_ld(k.tcgen05.ld(place, "32x32b", count)),
            lambda: k.tcgen05.st(place, "32x32b", [1] * count),
        ):
            if count <= 32:
                call()
            else:
                assert fail(call)[0] == ["tcgen05.bounds"]
        k.tcgen05.wait_st()


@pytest.mark.parametrize("columns", [0, 16, 48, 96, 1024, -32])
def test_columns_are_a_power_of_two(k, columns):
    cell = k.shared(u32, 1)
    rules, message = fail(lambda: k.tcgen05.alloc(cell, columns))
    assert rules == ["tcgen05.columns"]
    assert str(columns) in message
    assert fail(lambda: k.tcgen05.dealloc(0, columns))[0] == ["tcgen05.columns"]


@pytest.mark.parametrize(
    "call",
    [
        lambda k: k.tcgen05.ld(0, "8x8b", 1),
        lambda k: k.tcgen05.ld(0, "16x256b", 64),
        lambda k: k.tcgen05.ld(0, "32x32b", 3),
        lambda k: k.tcgen05.ld(0, "32x32b", 2, half_split=8),
        lambda k: k.tcgen05.st(0, "32x32b", [1, 2, 3]),
        lambda k: k.tcgen05.st(0, "16x128b", [1, 2, 3]),
        lambda k: k.tcgen05.st(0, "x", [1]),
        lambda k: k.tcgen05.ld(0, "32x32b", 1, red="max", type=f32),
        lambda k: k.tcgen05.ld(0, "32x32b", 2, red="max"),
        lambda k: k.tcgen05.ld(0, "32x32b", 2, red="max", type=u32, absolute=True),
        lambda k: k.tcgen05.ld(0, "32x32b", 2, red="max", type=u32, pack=True),
        lambda k: k.tcgen05.ld(0, "32x32b", 2, type=f32),
        lambda k: k.tcgen05.ld(0, "32x32b", 2, absolute=True),
        lambda k: k.tcgen05.cp(0, 0, "32x128b"),
        lambda k: k.tcgen05.cp(0, 0, "128x256b", unpack="b2"),
        lambda k: k.tcgen05.shift(0, cta_group=3),
        lambda k: k.tcgen05.commit(k.shared(u64, 1), cta_group=4),
        lambda k: k.tcgen05.relinquish_alloc_permit(cta_group=0),
    ],
)
def test_what_there_is_no_instruction_for_is_told_with_what_there_is(k, call):
    rules, message = fail(lambda: call(k))
    assert rules == ["instruction.variant"]
    assert message.startswith("tcgen05.")


@pytest.mark.parametrize("target", ["sm_90a", "sm_100", "sm_120a"])
def test_a_chip_without_tensor_memory_is_refused(target):
    k, _ = builder(target)
    assert fail(lambda: k.tcgen05.ld(0, "32x32b", 1))[0] == ["target.feature"]
    assert fail(k.tcgen05.fence_after_thread_sync)[0] == ["target.feature"]
    assert fail(lambda: k.tcgen05.mma(Tcgen05Request("f16"), 0, 0, 0, HALF))[0] == ["tcgen05.target"]


def test_shift_is_there_with_the_suffix_a_alone():
    assert fail(lambda: builder("sm_100f")[0].tcgen05.shift(0))[0] == ["target.feature"]


SPARSE = InstructionDescriptor(kind="f16", m=128, n=64, a=f16, b=f16, d=f32, sparse=True)


@pytest.mark.parametrize(
    ("request_", "descriptor", "more", "rules"),
    [
        (Tcgen05Request("tf32"), HALF, {}, ["tcgen05.descriptor"]),
        (Tcgen05Request("f16", cta_group=2), SPARSE, {}, ["tcgen05.descriptor"]),
        (Tcgen05Request("f16", weight_stationary=True), HALF, {"metadata": 1}, ["tcgen05.operands"]),
        (Tcgen05Request("f16", sparse=True), SPARSE, {}, ["tcgen05.operands"]),
        (Tcgen05Request("f16"), HALF, {"scale_a": 1, "scale_b": 2}, ["tcgen05.operands"]),
        (Tcgen05Request("f16"), None, {}, ["tcgen05.operands"]),
        (Tcgen05Request("f16", disable_output_lane=True), HALF, {"output_lanes": [1, 2]}, ["tcgen05.lane-words"]),
        (Tcgen05Request("f16", scale_input_d=True), HALF, {"scale_input_d": 16}, ["machine.immediate"]),
        (Tcgen05Request("f16", ashift=True), HALF, {}, ["tcgen05.ashift-shared"]),
    ],
)
def test_request_descriptor_and_operands_belong_together(k, request_, descriptor, more, rules):
    assert fail(lambda: k.tcgen05.mma(request_, 0, 0, 0, descriptor, **more))[0] == rules


def test_a_shape_that_the_kind_lacks_is_refused(k):
    wide = InstructionDescriptor(kind="f16", m=256, n=256, a=f16, b=f16, d=f32)
    assert fail(lambda: k.tcgen05.mma(Tcgen05Request("f16"), 0, 0, 0, wide))[0] == ["tcgen05.m"]


def test_operands_are_typed(k):
    address = k.const(0, nvb.s64)
    assert fail(lambda: k.tcgen05.ld(address, "32x32b", 1))[0] == ["value.type"]
    assert fail(lambda: k.tcgen05.mma(Tcgen05Request("f16"), address, 0, 0, HALF))[0] == ["value.type"]


def test_two_cta_groups_in_a_kernel_are_refused(k):
    with k.one_thread():
        k.tcgen05.shift(0, cta_group=1)
        k.tcgen05.shift(0, cta_group=2)
    with pytest.raises(DiagnosticError) as error:
        k.finish()
    assert [found.rule_id for found in error.value.diagnostics] == ["tcgen05.cta-groups-mixed"]


def test_an_allocation_is_a_block_that_gives_its_columns_back():
    k, out = builder()
    with k.tcgen05.tmem(64) as tmem:
        assert tmem.width == 64
        load = k.tcgen05.ld(tmem.columns(32, 32).lanes(k.warp_id() * 32), "32x32b", 32)
        k.tcgen05.wait_ld(load)
        out[k.thread_id()] = load.values[0]
    compiled = k.finish(check=False).compile()
    assert compiled.cubin
    assert [word.partition(".cta_group")[0] for word in words(compiled.ptx)] == [
        "tcgen05.alloc",
        "tcgen05.relinquish_alloc_permit",
        "tcgen05.fence::before_thread_sync;",
        "tcgen05.fence::after_thread_sync;",
        "tcgen05.ld.sync.aligned.32x32b.x32.b32",
        "tcgen05.wait::ld.sync.aligned;",
        "tcgen05.fence::before_thread_sync;",
        "tcgen05.fence::after_thread_sync;",
        "tcgen05.dealloc",
    ]


def touched(k, opcode):
    """Offset, columns and use of each access to tensor memory by these instructions, with the allocation's width."""
    return [
        (touch.offset, touch.bytes, touch.use.value, touch.object.bytes)
        for instr in k.machine.instructions()
        for touch in instr.memory
        if instr.opcode == opcode and touch.object.space == "tmem"
    ]


def test_accesses_know_their_columns_however_the_address_was_made():
    k, _ = builder()
    with k.tcgen05.tmem(128, relinquish=False) as tmem:
        k.tcgen05.wait_ld(k.tcgen05.ld(tmem.columns(64, 64).lanes(32), "32x32b", 8))
        k.tcgen05.wait_ld(k.tcgen05.ld(tmem + 4 + (k.warp_id().to(u32) << 21), "16x256b", 2, pack=True))
        cell = k.shared(u32, 4)
        k.tcgen05.alloc(cell + 1, 32)
        k.tcgen05.st((cell + 1)[0] + 16, "16x64b", [1, 2])
        k.tcgen05.st((cell + 2)[0] + 16, "16x64b", [1, 2])
        wide = InstructionDescriptor(kind="f16", m=128, n=48, a=f16, b=f16, d=f32)
        k.tcgen05.mma(Tcgen05Request("f16"), tmem.columns(16, 48), k.const(0, u64), k.const(0, u64), wide)
    assert touched(k, "tcgen05.ld") == [(64, 8, "async-read", 128), (4, 32, "async-read", 128)]
    assert touched(k, "tcgen05.st") == [(16, 4, "async-write", 32)]
    assert touched(k, "tcgen05.mma") == [(16, 48, "async-write", 128)]


@pytest.mark.parametrize(("first", "width"), [(32, 64), (-1, 8), (0, 0), (65, 1)])
def test_columns_stay_within_the_allocation(k, first, width):
    with k.tcgen05.tmem(64) as tmem:
        assert fail(lambda: tmem.columns(first, width))[0] == ["tcgen05.bounds"]


def operand_tile(k, element=f16, major=nvb.Major.K, rows=128):
    return k.shared_tile(nvb.SmemLayout(major, nvb.SwizzleMode.B128, element, rows, 64))


def test_tiles_are_operands_and_their_descriptors_are_checked_again():
    k, _ = builder()
    done = k.mbarrier.array(1, 1)
    k.mbarrier.ready()
    a, b = operand_tile(k), operand_tile(k, rows=COLUMNS)
    with k.tcgen05.tmem(COLUMNS) as tmem, k.one_thread():
        for column in (0, 16, 48):
            at = (0, column)
            k.tcgen05.mma(Tcgen05Request("f16"), tmem, a, b, HALF, a_at=at, b_at=at, accumulate=column > 0)
        k.tcgen05.commit(done)
    issued = [instr for instr in k.machine.instructions() if instr.opcode == "tcgen05.mma"]
    layout = Tcgen05SmemDescriptor(0, 16, 1024, swizzle=Tcgen05Swizzle.B128)
    assert {instr.words["b_desc"] for instr in issued} == {layout.template_word}
    assert [touch.offset for instr in issued for touch in instr.memory if touch.operand == "b_desc"] == [0, 32, 96]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"element": nvb.bf16}, "A of the instruction is f16, K-major; the tile is bf16, K-major"),
        ({"major": nvb.Major.MN}, "A of the instruction is f16, K-major; the tile is f16, MN-major"),
    ],
)
def test_a_tile_of_something_else_is_refused(k, wrong, text):
    tile = operand_tile(k, **wrong)
    rules, message = fail(lambda: k.tcgen05.mma(Tcgen05Request("f16"), 0, tile, 0, HALF))
    assert rules == ["tcgen05.operand-tile"]
    assert message == text
    assert fail(lambda: k.tcgen05.mma(Tcgen05Request("f16"), 0, 0, operand_tile(k), HALF))[0] == ["layout.bounds"]


def test_a_ring_is_fed_to_one_thread(k):
    ring = k.pipeline(2, consumers=1, a=nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 128, 64))

    def feed():
        with k.one_thread(), ring.feed():
            pass

    assert fail(feed)[0] == ["pipeline.not-ready"]


@pytest.mark.parametrize("ctas", [1, 2])
def test_all_that_use_an_allocation_meet_after_it_is_made_and_before_it_is_freed(ctas):
    k, _ = builder(cluster=2)
    with k.tcgen05.tmem(64, cta_group=ctas):
        pass
    opcodes = (each.opcode for each in k.machine.instructions())
    met = [each for each in opcodes if each.startswith(("bar", "tcgen05.alloc", "tcgen05.dealloc"))]
    meeting = ["bar.sync"] if ctas == 1 else ["barrier.cluster.arrive", "barrier.cluster.wait"]
    assert met == ["tcgen05.alloc", *meeting, *meeting, "tcgen05.dealloc"]


def test_what_one_load_has_given_is_read_while_another_is_under_way():
    k, out = builder()
    with k.tcgen05.tmem(64) as tmem:
        k.tcgen05.wait_ld(first := k.tcgen05.ld(tmem, "32x32b", 1))
        second = k.tcgen05.ld(tmem.columns(32, 1), "32x32b", 1)
        out[k.thread_id()] = first[0]
        k.tcgen05.wait_ld(second)
    assert k.finish().ir.count('call i32 @"llvm.nvvm.tcgen05.ld') == 2
