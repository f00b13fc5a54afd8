"""mma.sync, and the tiles that an mma is made into."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import Target, b1, bf16, e2m1, e4m3, f16, f32, f64, s8, s32, ue8m0
from nvbackend.tiled import make_tiled_mma
from tests.rules.example import kernel, program
from tests.rules.setup import BLACKWELL, HOPPER

AMPERE = Target.parse("sm_80")
BLACKWELL_PC = Target.parse("sm_120a")


@program("mma.shape")
def shape_without_its_letters():
    nvb.mma.sync("16x8x16", f16, f16, f32)  # breaks
    nvb.mma.sync("m16n8k16", f16, f16, f32)  # keeps


@program("mma.types")
def two_types_of_16_bits():
    nvb.mma.select(nvb.mma.sync("m16n8k16", f16, bf16, f32), HOPPER)  # breaks
    nvb.mma.select(nvb.mma.sync("m16n8k16", bf16, bf16, f32), HOPPER)  # keeps


@program("mma.extent")
def square_shape():
    nvb.mma.select(nvb.mma.sync("m16n16k16", f16, f16, f32), HOPPER)  # breaks
    nvb.mma.select(nvb.mma.sync("m16n8k16", f16, f16, f32), HOPPER)  # keeps


@program("mma.accumulators")
def bf16_into_f16():
    nvb.mma.select(nvb.mma.sync("m16n8k16", bf16, bf16, f16), HOPPER)  # breaks
    nvb.mma.select(nvb.mma.sync("m16n8k16", bf16, bf16, f32), HOPPER)  # keeps


@program("mma.layouts")
def a_by_columns():
    nvb.mma.select(nvb.mma.sync("m16n8k16", f16, f16, f32, a_layout="col"), HOPPER)  # breaks
    nvb.mma.select(nvb.mma.sync("m16n8k16", f16, f16, f32, a_layout="row"), HOPPER)  # keeps


@program("mma.satfinite")
def floats_that_saturate():
    nvb.mma.select(nvb.mma.sync("m16n8k16", f16, f16, f32, satfinite=True), HOPPER)  # breaks
    nvb.mma.select(nvb.mma.sync("m16n8k16", s8, s8, s32, satfinite=True), HOPPER)  # keeps


@program("mma.sparsity")
def sparse_doubles():
    nvb.mma.select(nvb.mma.sync("m16n8k16", f64, f64, f64, sparse=True), HOPPER)  # breaks
    nvb.mma.select(nvb.mma.sync("m16n8k16", f64, f64, f64), HOPPER)  # keeps


@program("mma.operation")
def bits_without_an_operation():
    nvb.mma.select(nvb.mma.sync("m16n8k128", b1, b1, s32), AMPERE)  # breaks
    nvb.mma.select(nvb.mma.sync("m16n8k128", b1, b1, s32, popc="and"), AMPERE)  # keeps


@program("mma.kind")
def fp4_without_a_kind():
    nvb.mma.select(nvb.mma.sync("m16n8k32", e2m1, e2m1, f32), BLACKWELL_PC)  # breaks
    nvb.mma.select(nvb.mma.sync("m16n8k32", e2m1, e2m1, f32, kind="f8f6f4"), BLACKWELL_PC)  # keeps


@program("mma.scale")
def factors_of_another_vector():
    count = 4  # breaks
    count = 2  # keeps
    request = nvb.mma.sync("m16n8k64", e2m1, e2m1, f32, kind="mxf4", scale=ue8m0, scale_vec=count)
    nvb.mma.select(request, BLACKWELL_PC)


@program("mma.immediate")
def metadata_of_threads_that_have_none():
    nvb.mma.select(nvb.mma.sync("m16n8k32", s8, s8, s32, sparse=True, selector=2), HOPPER)  # breaks
    nvb.mma.select(nvb.mma.sync("m16n8k32", s8, s8, s32, sparse=True, selector=1), HOPPER)  # keeps


@program("mma.target")
def mma_of_a_later_chip():
    target = Target.parse("sm_75")  # breaks
    target = Target.parse("sm_80")  # keeps
    nvb.mma.select(nvb.mma.sync("m16n8k16", f16, f16, f32), target)


@program("mma.ptx-version")
def fp8_in_old_ptx():
    target = Target.parse("sm_89", (8, 3))  # breaks
    target = Target.parse("sm_89", (8, 4))  # keeps
    nvb.mma.select(nvb.mma.sync("m16n8k32", e4m3, e4m3, f32), target)


@kernel("mma.registers")
def two_registers_of_a(k):
    request = nvb.mma.sync("m16n8k16", f16, f16, f32)
    k.mma.sync(request, [0] * 2, [0] * 2, [0.0] * 4)  # breaks
    k.mma.sync(request, [0] * 4, [0] * 2, [0.0] * 4)  # keeps


@kernel("mma.operands")
def sparse_without_metadata(k):
    request = nvb.mma.sync("m16n8k32", f16, f16, f32, sparse=True)
    k.mma.sync(request, [0] * 4, [0] * 4, [0.0] * 4)  # breaks
    k.mma.sync(request, [0] * 4, [0] * 4, [0.0] * 4, metadata=0x44444444)  # keeps


@kernel("mma.tile")
def tiles_of_different_k(k):
    mma = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32))
    acc, a = mma.accumulator(), k.shared_tile(mma.smem_a(64))
    b = k.shared_tile(mma.smem_b(128))  # breaks
    b = k.shared_tile(mma.smem_b(64))  # keeps
    with k.wgmma.group():
        mma.accumulate(acc, a, b)


@kernel("mma.warpgroups", threads=256)
def no_warpgroups_along_n(k):
    k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32), warpgroups=(2, 0))  # breaks
    k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32), warpgroups=(2, 1))  # keeps


@kernel("mma.threads", threads=256)
def sixteen_warpgroups(k):
    k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32), warpgroups=(4, 4))  # breaks
    k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32), warpgroups=(2, 1))  # keeps


@kernel("mma.warpgroup", threads=256)
def warpgroup_behind_the_last(k):
    mma = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32), warpgroups=(2, 1))
    acc, a, b = mma.accumulator(), k.shared_tile(mma.smem_a(64)), k.shared_tile(mma.smem_b(64))
    with k.wgmma.group():
        mma.accumulate(acc, a, b, warpgroup=2)  # breaks
        mma.accumulate(acc, a, b, warpgroup=1)  # keeps


@kernel("mma.warpgroups-there", threads=256)
def half_of_the_tile(k):
    mma = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32), warpgroups=(2, 1))  # breaks
    mma = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32), warpgroups=(1, 1))  # keeps
    a, b = k.shared_tile(mma.smem_a(64)), k.shared_tile(mma.smem_b(64))
    with k.producer(40):
        pass
    with k.consumers(232) as warpgroup:
        acc = mma.accumulator()
        with k.wgmma.group():
            mma.accumulate(acc, a, b, warpgroup)


@kernel("mma.tiled")
def atoms_laid_out_twice(k):
    laid_out = make_tiled_mma("SM90_64x64x16_F32F16F16_SS<Major::K, Major::K>", (2, 1, 1))
    k.tiled_mma(laid_out, warpgroups=(2, 1))  # breaks
    k.tiled_mma(laid_out)  # keeps


@kernel("mma.tile-accumulators")
def four_atoms_in_one_accumulator(k):
    mma = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32), tile=(128, 128))
    acc = mma.accumulator()  # breaks
    acc = mma.accumulators()  # keeps
    acc.clear()


@kernel("mma.tile-registers")
def fragments_of_half_a_step(k):
    mma = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32, a_in_registers=True), tile=(128, 64))
    one = k.wgmma.fragment([0] * 4, f16)
    mma.make_fragment_A([one])  # breaks
    mma.make_fragment_A([one, one])  # keeps


@kernel("mma.tile-parts")
def sum_of_one_part(k):
    acc = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32)).accumulators()  # breaks
    acc = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32)).accumulators(parts=2)  # keeps
    for one in acc:
        one.fill(0.0)
    acc.add_parts()


@kernel("mma.tile-columns", BLACKWELL)
def accumulators_of_another_shape(k):
    shape = nvb.InstructionDescriptor(kind="f16", m=128, n=256, a=f16, b=f16, d=f32)
    mma = k.tiled_mma(nvb.Tcgen05Request("f16"), descriptor=shape)
    a, b = k.shared_tile(mma.smem_a(64)), k.shared_tile(mma.smem_b(64))
    done = k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    columns = 128  # breaks
    columns = mma.columns  # keeps
    with k.tcgen05.tmem(columns) as accumulators:
        with k.one_thread(0):
            mma.accumulate(accumulators, a, b, accumulate=False)
            k.tcgen05.commit(done)
        k.mbarrier.wait(done, 0)
