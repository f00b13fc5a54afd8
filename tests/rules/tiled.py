"""Tiled MMAs: atoms over tiles."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import Parameter, Pointer, f16, f32
from nvbackend.layout import Layout, _
from nvbackend.tiled import gemm, make_tiled_mma
from tests.rules.example import program


@program("tiled-mma.atom-layout")
def two_atoms_in_the_same_threads():
    layout = Layout((2, 1, 1), (0, 0, 0))  # breaks
    layout = Layout((2, 1, 1), (1, 0, 0))  # keeps
    make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", layout)


@program("tiled-mma.fragment")
def accumulators_of_a_tile_that_is_not_cut():
    mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN")
    c = Layout((64, 64))
    mma.make_fragment_C(c)  # breaks
    mma.make_fragment_C(mma.get_slice(0).partition_C(c))  # keeps


@program("tiled-mma.gemm")
def every_stage_at_once():
    mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN")
    thread = mma.get_slice(0)
    a, b = (thread.partition_fragment_A(Layout((64, 32, 3))), thread.partition_fragment_B(Layout((64, 32, 3))))
    c = thread.partition_fragment_C(Layout((64, 64)))
    gemm(mma, a, b, c)  # breaks
    gemm(mma, a(_, _, _, 0), b(_, _, _, 0), c)  # keeps


@program("tiled-mma.operand")
def a_picture_of_the_scale_factors():
    mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN")
    mma.picture("SFA")  # breaks
    mma.picture("A")  # keeps


@program("tiled-mma.permutation")
def rows_that_come_twice():
    order = Layout((16, 2), (1, 8))  # breaks
    order = Layout((16, 2), (2, 1))  # keeps
    make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", permutation=(order,))


@program("tiled-mma.tensor-memory")
def accumulators_of_more_columns_than_there_are():
    mma = make_tiled_mma("SM100_MMA_F16BF16_SS<half_t, half_t, float, 128, 256, Major::K, Major::K>")
    tile = Layout((256, 512))  # breaks
    tile = Layout((256, 256))  # keeps
    mma.get_slice(0).partition_fragment_C(tile)


@program("tiled-mma.thread")
def a_thread_past_the_last_warp():
    mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1))
    mma.get_slice(128)  # breaks
    mma.get_slice(127)  # keeps


@program("tiled-mma.tile")
def rows_for_half_an_atom():
    thread = make_tiled_mma("SM90_64x64x16_F32F16F16_SS<Major::K, Major::K>").get_slice(0)
    thread.partition_A(Layout((32, 64)))  # breaks
    thread.partition_A(Layout((64, 64)))  # keeps


@program("epilogue.axpby-types")
def floats_from_a_matrix_of_integers():
    k = nvb.KernelBuilder("k", "sm_90a", threads=128, parameters=[Parameter("d", Pointer(f32))])
    mma = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32))
    c = k.arguments[0].cast(nvb.s32)  # breaks
    c = k.arguments[0].cast(nvb.bf16)  # keeps
    mma.axpby(1, mma.accumulator(), 1, k.arguments[0], 64, c=c)
