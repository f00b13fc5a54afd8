"""Which wgmma instructions there are, and what they are given."""

from __future__ import annotations

import dataclasses

import nvbackend as nvb
from nvbackend import Target, b1, bf16, f16, f32, s4, s8, s32, tf32
from tests.rules.example import kernel, program
from tests.rules.setup import HOPPER, wgmma_parts


@program("wgmma.m")
def two_warpgroups_in_one_instruction():
    nvb.wgmma.select(nvb.wgmma.mma_async("m128n64k16", f16, f16, f32), HOPPER)  # breaks
    nvb.wgmma.select(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32), HOPPER)  # keeps


@program("wgmma.n-step")
def n_between_two_blocks():
    nvb.wgmma.select(nvb.wgmma.mma_async("m64n60k16", f16, f16, f32), HOPPER)  # breaks
    nvb.wgmma.select(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32), HOPPER)  # keeps


@program("wgmma.n-range")
def n_too_wide():
    nvb.wgmma.select(nvb.wgmma.mma_async("m64n264k16", f16, f16, f32), HOPPER)  # breaks
    nvb.wgmma.select(nvb.wgmma.mma_async("m64n256k16", f16, f16, f32), HOPPER)  # keeps


@program("wgmma.n-integer")
def n_that_integers_do_not_have():
    nvb.wgmma.select(nvb.wgmma.mma_async("m64n40k32", s8, s8, s32), HOPPER)  # breaks
    nvb.wgmma.select(nvb.wgmma.mma_async("m64n48k32", s8, s8, s32), HOPPER)  # keeps


@program("wgmma.k")
def k_of_another_type():
    nvb.wgmma.select(nvb.wgmma.mma_async("m64n64k16", tf32, tf32, f32), HOPPER)  # breaks
    nvb.wgmma.select(nvb.wgmma.mma_async("m64n64k8", tf32, tf32, f32), HOPPER)  # keeps


@program("wgmma.types")
def bf16_into_f16():
    nvb.wgmma.select(nvb.wgmma.mma_async("m64n64k16", bf16, bf16, f16), HOPPER)  # breaks
    nvb.wgmma.select(nvb.wgmma.mma_async("m64n64k16", bf16, bf16, f32), HOPPER)  # keeps


@program("wgmma.four-bit")
def four_bit_integers():
    nvb.wgmma.select(nvb.wgmma.mma_async("m64n64k64", s4, s4, s32), HOPPER)  # breaks
    nvb.wgmma.select(nvb.wgmma.mma_async("m64n64k32", s8, s8, s32), HOPPER)  # keeps


@program("wgmma.popc")
def bits_by_xor():
    request = nvb.wgmma.mma_async("m64n64k256", b1, b1, s32)
    nvb.wgmma.select(dataclasses.replace(request, popc="xor"), HOPPER)  # breaks
    nvb.wgmma.select(dataclasses.replace(request, popc="and"), HOPPER)  # keeps


@program("wgmma.sparse")
def sparse_bits():
    nvb.wgmma.select(nvb.wgmma.mma_async("m64n64k512", b1, b1, s32, sparse=True), HOPPER)  # breaks
    nvb.wgmma.select(nvb.wgmma.mma_async("m64n64k256", b1, b1, s32), HOPPER)  # keeps


@program("wgmma.selector")
def metadata_of_threads_that_have_none():
    request = nvb.wgmma.mma_async("m64n64k32", f16, f16, f32, sparse=True)
    nvb.wgmma.select(dataclasses.replace(request, selector=2), HOPPER)  # breaks
    nvb.wgmma.select(dataclasses.replace(request, selector=1), HOPPER)  # keeps


@program("wgmma.satfinite")
def floats_that_saturate():
    nvb.wgmma.select(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32, satfinite=True), HOPPER)  # breaks
    nvb.wgmma.select(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32), HOPPER)  # keeps


@program("wgmma.negate")
def integers_that_are_negated():
    nvb.wgmma.select(nvb.wgmma.mma_async("m64n64k32", s8, s8, s32, negate_a=True), HOPPER)  # breaks
    nvb.wgmma.select(nvb.wgmma.mma_async("m64n64k32", s8, s8, s32), HOPPER)  # keeps


@program("wgmma.transpose")
def eight_bit_operand_by_columns():
    request = nvb.wgmma.mma_async("m64n64k32", s8, s8, s32)
    request = dataclasses.replace(request, trans_b=1)  # breaks
    nvb.wgmma.select(request, HOPPER)


@program("wgmma.target")
def target_without_the_suffix():
    target = Target.parse("sm_90")  # breaks
    target = Target.parse("sm_90a")  # keeps
    nvb.wgmma.select(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32), target)


@program("wgmma.ptx-version")
def ptx_before_sparse_wgmma():
    target = Target.parse("sm_90a", (8, 0))  # breaks
    target = Target.parse("sm_90a", (8, 2))  # keeps
    nvb.wgmma.select(nvb.wgmma.mma_async("m64n64k32", f16, f16, f32, sparse=True), target)


@kernel("wgmma.accumulator")
def accumulator_of_another_shape(k):
    mma, acc, tile = wgmma_parts(k)
    acc = k.wgmma.accumulator(128)  # breaks
    with k.wgmma.group():
        mma.accumulate(acc, tile, tile)


@kernel("wgmma.operand-element")
def tile_of_another_type(k):
    mma, acc, tile = wgmma_parts(k)
    tile_a = k.shared_tile(nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, bf16, 64, 64))  # breaks
    tile_a = k.shared_tile(nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64))  # keeps
    with k.wgmma.group():
        mma.accumulate(acc, tile_a, tile)


@kernel("wgmma.operand-major")
def tile_of_the_other_majorness(k):
    mma, acc, tile = wgmma_parts(k)
    request = dataclasses.replace(mma.instruction, trans_a=1)  # breaks
    request = dataclasses.replace(mma.instruction, trans_a=0)  # keeps
    with k.wgmma.group():
        k.wgmma.mma_async(acc, tile, tile, request)


@kernel("wgmma.residency")
def tile_where_registers_are_asked_for(k):
    _, acc, tile = wgmma_parts(k)
    request = nvb.wgmma.mma_async("m64n64k16", f16, f16, f32, a_in_registers=True)  # breaks
    request = nvb.wgmma.mma_async("m64n64k16", f16, f16, f32)  # keeps
    with k.wgmma.group():
        k.wgmma.mma_async(acc, tile, tile, request)


@kernel("wgmma.fragment")
def three_registers_of_a(k):
    k.wgmma.fragment([0, 0, 0], f16)  # breaks
    k.wgmma.fragment([0, 0, 0, 0], f16)  # keeps


@kernel("wgmma.registers")
def too_few_values(k):
    acc = k.wgmma.accumulator(64)
    acc.set([1.0] * 31)  # breaks
    acc.set([1.0] * 32)  # keeps


@program("wgmma.threads")
def half_a_warpgroup():
    k = nvb.KernelBuilder("k", "sm_90a", threads=192)  # breaks
    k = nvb.KernelBuilder("k", "sm_90a", threads=256)  # keeps
    mma, acc, tile = wgmma_parts(k)
    with k.wgmma.group():
        mma.accumulate(acc, tile, tile)
    k.finish()


@program("wgmma.seed-operand-b")
def a_b_of_double():
    nvb.tileiras.seed_operand_b(nvb.f64)  # breaks
    nvb.tileiras.seed_operand_b(nvb.tf32)  # keeps
