"""k.tiled_mma of tcgen05: descriptors and columns of each instruction, one CTA and pairs of them."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

import nvbackend as nvb
from nvbackend import Major, SmemLayout, SwizzleMode, f16, f32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.words.tcgen05_descriptor import Tcgen05SmemDescriptor, Tcgen05Swizzle
from nvbackend.isel.machine.function import MachineInstr
from tests.support.ir_addresses import condition_of, evaluate, instructions

REQUEST = nvb.Tcgen05Request("f16")
PAIR = nvb.Tcgen05Request("f16", cta_group=2)
NAME = "SM100_MMA_F16BF16_SS<half_t, half_t, float, 128, 256, Major::K, Major::K>"
B128_K_MAJOR = Tcgen05SmemDescriptor(0, 16, 1024, swizzle=Tcgen05Swizzle.B128).encode()


def shape(m: int, n: int) -> nvb.InstructionDescriptor:
    return nvb.InstructionDescriptor(kind="f16", m=m, n=n, a=f16, b=f16, d=f32)


def products(k: KernelBuilder) -> list[MachineInstr]:
    return [one for one in k.machine.instructions() if one.opcode == "tcgen05.mma"]


def places(one: MachineInstr) -> tuple[int, int, int]:
    """Where A and B begin in their tiles, in bytes, and D in its allocation, in columns."""
    found = {touch.operand: touch for touch in one.memory}
    assert not any(touch.symbol for touch in one.memory)
    return found["a_desc"].offset, found["b_desc"].offset, found["d"].offset


def build(given, a=None, b=None, *, cluster=1, columns=None, **how) -> tuple[KernelBuilder, list[MachineInstr]]:
    k = KernelBuilder("tiled", "sm_100a", threads=128, cluster=cluster)
    mma = k.tiled_mma(given, **how)
    tile_a = k.shared_tile(a or mma.smem_a(64), name="a")
    tile_b = k.shared_tile(b or mma.smem_b(64), name="b")
    done = k.mbarrier.array(1, arrivals=1, name="done")
    k.mbarrier.ready()
    group = mma.instruction.cta_group
    with k.tcgen05.tmem(columns or mma.columns, cta_group=group) as accumulators:
        with k.one_thread(0), k.if_(k.cluster.rank() == 0) if group == 2 else nullcontext():
            mma.accumulate(accumulators, tile_a, tile_b, accumulate=False)
            k.tcgen05.commit(done, cta_group=group, multicast_mask=0b11 if group == 2 else None)
        k.mbarrier.wait(done, 0)
    return k, products(k)


def assembled(k: KernelBuilder) -> str:
    compiled = k.finish().compile()
    assert compiled.cubin
    return compiled.ptx


@pytest.mark.parametrize(("given", "how"), [(REQUEST, {"descriptor": shape(128, 256)}), (NAME, {})])
def test_one_instruction_for_each_step_along_k(given, how):
    k, found = build(given, **how)
    assert [places(one) for one in found] == [(step, step, 0) for step in (0, 32, 64, 96)]
    assert {one.words["a_desc"] for one in found} == {one.words["b_desc"] for one in found} == {B128_K_MAJOR}
    assert assembled(k).count("tcgen05.mma.cta_group::1.kind::f16") == 4


def test_the_first_instruction_of_each_accumulator_overwrites():
    _, found = build(REQUEST, descriptor=shape(128, 128), tile=(256, 128))
    assert [one.operands["enable_d"] for one in found] == ["0"] * 2 + ["1"] * 6


def test_a_tile_of_several_atoms_goes_to_and_fro_over_n():
    """128 rows of A are 128 x 128 bytes, of B 128 x 128; each 128 x 128 accumulator has 128 columns."""
    k, found = build(REQUEST, descriptor=shape(128, 128), tile=(256, 256))
    rows = 128 * 128
    order = [(0, 0), (0, 1), (1, 1), (1, 0)]
    assert [places(one) for one in found] == [
        (m * rows + step, n * rows + step, 128 * m + 256 * n) for step in (0, 32, 64, 96) for m, n in order
    ]
    assert assembled(k).count("tcgen05.mma") == 16


def test_each_cta_of_a_pair_has_half_of_a_and_half_of_b():
    k, found = build(PAIR, descriptor=shape(256, 256), cluster=2)
    assert [places(one) for one in found] == [(step, step, 0) for step in (0, 32, 64, 96)]
    assert assembled(k).count("tcgen05.mma.cta_group::2.kind::f16") == 4


def test_pairs_with_several_atoms_along_m():
    k = KernelBuilder("tiled", "sm_100a", threads=128, cluster=2)
    mma = k.tiled_mma(PAIR, descriptor=shape(256, 128), tile=(512, 128))
    assert (mma.smem_a(64).rows, mma.smem_b(64).rows, mma.columns) == (256, 64, 256)
    _, found = build(PAIR, descriptor=shape(256, 128), tile=(512, 128), cluster=2)
    assert [places(one) for one in found] == [
        (m * 128 * 128 + step, step, 128 * m) for step in (0, 32, 64, 96) for m in (0, 1)
    ]


def test_a_request_reads_what_the_tiles_are():
    """MN-major f16: rows of 64 elements, 16 k are 16 rows of 128 bytes further on; the second 64 rows follow 64 k."""
    a = SmemLayout(Major.MN, SwizzleMode.B128, f16, 128, 64)
    k, found = build(REQUEST, a, descriptor=shape(128, 256))
    assert [places(one)[0] for one in found] == [0, 2048, 4096, 6144]
    word = Tcgen05SmemDescriptor(0, 64 * 128, 1024, swizzle=Tcgen05Swizzle.B128).encode()
    assert {one.words["a_desc"] for one in found} == {word}
    assert {one.words["idesc"] >> 15 & 3 for one in found} == {1}
    assert "tcgen05.mma" in assembled(k)


@pytest.mark.parametrize(("given", "first"), [({}, "1"), ({"accumulate": True}, "1"), ({"accumulate": False}, "0")])
def test_an_issue_accumulates_where_nothing_else_is_said(given, first):
    k = KernelBuilder("tiled", "sm_100a", threads=128)
    mma = k.tiled_mma(REQUEST, descriptor=shape(128, 128))
    a = mma.partition_fragment_A(k.shared_tile(mma.smem_a(64)))
    b = mma.partition_fragment_B(k.shared_tile(mma.smem_b(64)))
    with k.tcgen05.tmem(mma.columns) as columns, k.one_thread(0):
        for issue in mma.issues(a, b):
            mma.issue(issue, columns, a, b, **given)
        mma.gemm(columns, a, b, **given)
    assert [one.operands["enable_d"] for one in products(k)] == [first] * 4 + [first, "1", "1", "1"]


@pytest.mark.parametrize(("given", "warp"), [({}, 0), ({"warp": 3}, 3)])
def test_one_warp_allocates_and_gives_back(given, warp):
    k = KernelBuilder("tiled", "sm_100a", threads=128)
    with k.tcgen05.tmem(32, **given):
        pass
    calls = [one for name in ("alloc", "dealloc") for one in instructions(k.function, f"tcgen05.{name}.")]
    assert len(calls) == 2
    for one in calls:
        here = [each for each in range(4) if evaluate(condition_of(one), {"llvm.nvvm.shfl.sync.idx.i32": each})]
        assert here == [warp]


def test_an_atom_reads_what_its_name_says():
    with pytest.raises(nvb.DiagnosticError, match=r"tcgen05\.operand-tile"):
        build(NAME, SmemLayout(Major.MN, SwizzleMode.B128, f16, 128, 64))


@pytest.mark.parametrize(
    ("how", "rule"),
    [
        ({"descriptor": shape(128, 256), "columns": 128}, "mma.tile-columns"),
        ({"descriptor": shape(128, 256), "atom_layout": (2, 1, 1)}, "mma.tiled"),
        ({}, "atom.row"),
        ({"descriptor": shape(128, 256), "tile": (128, 128)}, "tiled-mma.tile"),
    ],
)
def test_what_is_refused(how, rule):
    with pytest.raises(nvb.DiagnosticError) as caught:
        build(REQUEST, **how)
    assert [one.rule_id for one in caught.value.diagnostics] == [rule]
    assert caught.value.diagnostics[0].location.file == __file__


def test_a_in_tensor_memory():
    """Two elements of A in a column: 16 k are 8 columns."""
    request = nvb.Tcgen05Request("f16", a_in_tmem=True)
    k = KernelBuilder("tiled", "sm_100a", threads=128)
    mma = k.tiled_mma(request, descriptor=shape(128, 128))
    b = k.shared_tile(mma.smem_b(64))
    with k.tcgen05.tmem(256) as columns, k.one_thread(0):
        first = mma.make_fragment_A(columns.columns(128, 32), 64)
        mma.accumulate(columns.columns(0, 128), first, b, accumulate=False)
    touches = [{touch.operand: touch.offset for touch in one.memory} for one in products(k)]
    assert [(one["a"], one["d"]) for one in touches] == [(128 + 8 * step, 0) for step in range(4)]


@pytest.mark.parametrize(("sparse", "steps", "columns"), [(False, 4, 8), (True, 2, 8)])
def test_a_sparse_a_in_tensor_memory_has_half_the_columns(sparse, steps, columns):
    """Of 64 k an instruction takes 16, or 32 of which 16 are stored: two of f16 in a column of tensor memory."""
    request = nvb.Tcgen05Request("f16", a_in_tmem=True, sparse=sparse)
    described = nvb.InstructionDescriptor(kind="f16", m=128, n=128, a=f16, b=f16, d=f32, sparse=sparse)
    k = KernelBuilder("tiled", "sm_100a", threads=128)
    mma = k.tiled_mma(request, descriptor=described)
    b = k.shared_tile(mma.smem_b(64))
    with k.tcgen05.tmem(256) as accumulators, k.one_thread(0):
        first = mma.make_fragment_A(accumulators.columns(128, 32), 64)
        issues = mma.issues(first, mma.partition_fragment_B(b))
    assert len(issues) == steps
    assert [one.a.cells()[0][1] for one in issues] == [columns * step for step in range(steps)]
