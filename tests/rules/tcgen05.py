"""Which tcgen05.mma there are: kinds, shapes, qualifiers and descriptors."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import InstructionDescriptor, Target, Tcgen05Request, e4m3, f16, f32, s8, s32
from nvbackend.diagnostics import raise_all
from nvbackend.isel.select.tcgen05.shapes import shape_faults
from tests.rules.example import program
from tests.rules.setup import BLACKWELL

THOR = Target.parse("sm_110a")
FAMILY = Target.parse("sm_100f")


@program("tcgen05.target")
def chip_without_tensor_memory():
    nvb.tcgen05.select(Tcgen05Request("f16"), Target.parse("sm_120a"))  # breaks
    nvb.tcgen05.select(Tcgen05Request("f16"), Target.parse("sm_100a"))  # keeps


@program("tcgen05.kind")
def kind_that_is_none():
    nvb.tcgen05.select(Tcgen05Request("f32"), BLACKWELL)  # breaks
    nvb.tcgen05.select(Tcgen05Request("tf32"), BLACKWELL)  # keeps


@program("tcgen05.cta-group")
def group_of_four():
    nvb.tcgen05.select(Tcgen05Request("f16", cta_group=4), BLACKWELL)  # breaks
    nvb.tcgen05.select(Tcgen05Request("f16", cta_group=2), BLACKWELL)  # keeps


@program("tcgen05.int8-target")
def integers_for_a_family():
    nvb.tcgen05.select(Tcgen05Request("i8"), FAMILY)  # breaks
    nvb.tcgen05.select(Tcgen05Request("i8"), BLACKWELL)  # keeps


@program("tcgen05.sparse-fp4-target")
def sparse_fp4_for_a_family():
    nvb.tcgen05.select(Tcgen05Request("mxf4", block_scale=True, sparse=True), FAMILY)  # breaks
    nvb.tcgen05.select(Tcgen05Request("mxf4", block_scale=True, sparse=True), BLACKWELL)  # keeps


@program("tcgen05.scale-vector-target")
def vector_spelled_out_for_a_family():
    nvb.tcgen05.select(Tcgen05Request("mxf4", block_scale=True, scale_vector="scale_vec::2X"), FAMILY)  # breaks
    nvb.tcgen05.select(Tcgen05Request("mxf4", block_scale=True), FAMILY)  # keeps


@program("tcgen05.scale-input-target")
def scaled_accumulator_on_thor():
    nvb.tcgen05.select(Tcgen05Request("f16", scale_input_d=True), THOR)  # breaks
    nvb.tcgen05.select(Tcgen05Request("f16", scale_input_d=True), BLACKWELL)  # keeps


@program("tcgen05.scale-input-kind")
def scaled_accumulator_of_fp8():
    nvb.tcgen05.select(Tcgen05Request("f8f6f4", scale_input_d=True), BLACKWELL)  # breaks
    nvb.tcgen05.select(Tcgen05Request("f16", scale_input_d=True), BLACKWELL)  # keeps


@program("tcgen05.block-scale-kind")
def factors_of_tf32():
    nvb.tcgen05.select(Tcgen05Request("tf32", block_scale=True), BLACKWELL)  # breaks
    nvb.tcgen05.select(Tcgen05Request("tf32"), BLACKWELL)  # keeps


@program("tcgen05.block-scale-needed")
def fp4_without_factors():
    nvb.tcgen05.select(Tcgen05Request("mxf4"), BLACKWELL)  # breaks
    nvb.tcgen05.select(Tcgen05Request("mxf4", block_scale=True), BLACKWELL)  # keeps


@program("tcgen05.scale-vector")
def factors_of_another_kind():
    nvb.tcgen05.select(Tcgen05Request("mxf8f6f4", block_scale=True, scale_vector="scale_vec::4X"), BLACKWELL)  # breaks
    nvb.tcgen05.select(Tcgen05Request("mxf8f6f4", block_scale=True, scale_vector="scale_vec::1X"), BLACKWELL)  # keeps


@program("tcgen05.scale-vector-needed")
def vector_left_open():
    nvb.tcgen05.select(Tcgen05Request("mxf4nvf4", block_scale=True), BLACKWELL)  # breaks
    nvb.tcgen05.select(Tcgen05Request("mxf4nvf4", block_scale=True, scale_vector="scale_vec::4X"), BLACKWELL)  # keeps


@program("tcgen05.ashift-block-scale")
def shift_with_factors():
    nvb.tcgen05.select(Tcgen05Request("mxf4", block_scale=True, ashift=True, a_in_tmem=True), BLACKWELL)  # breaks
    nvb.tcgen05.select(Tcgen05Request("f16", ashift=True, a_in_tmem=True), BLACKWELL)  # keeps


@program("tcgen05.ashift-collector")
def shift_of_what_is_collected():
    nvb.tcgen05.select(Tcgen05Request("f16", a_in_tmem=True, ashift=True, collector="a::fill"), BLACKWELL)  # breaks
    nvb.tcgen05.select(Tcgen05Request("f16", a_in_tmem=True, ashift=True, collector="a::lastuse"), BLACKWELL)  # keeps


@program("tcgen05.ashift-shared")
def shift_of_shared_memory():
    nvb.tcgen05.select(Tcgen05Request("f16", ashift=True), BLACKWELL)  # breaks
    nvb.tcgen05.select(Tcgen05Request("f16", ashift=True, a_in_tmem=True), BLACKWELL)  # keeps


@program("tcgen05.ws-cta-group")
def weight_stationary_pair():
    nvb.tcgen05.select(Tcgen05Request("f16", cta_group=2, weight_stationary=True), BLACKWELL)  # breaks
    nvb.tcgen05.select(Tcgen05Request("f16", cta_group=1, weight_stationary=True), BLACKWELL)  # keeps


@program("tcgen05.ws-kind")
def weight_stationary_factors():
    nvb.tcgen05.select(Tcgen05Request("mxf8f6f4", block_scale=True, weight_stationary=True), BLACKWELL)  # breaks
    nvb.tcgen05.select(Tcgen05Request("f8f6f4", weight_stationary=True), BLACKWELL)  # keeps


@program("tcgen05.ws-operands")
def weight_stationary_lanes():
    nvb.tcgen05.select(Tcgen05Request("f16", weight_stationary=True, disable_output_lane=True), BLACKWELL)  # breaks
    nvb.tcgen05.select(Tcgen05Request("f16", disable_output_lane=True), BLACKWELL)  # keeps


@program("tcgen05.zero-column-mask")
def mask_without_weights():
    nvb.tcgen05.select(Tcgen05Request("f16", zero_column_mask=True), BLACKWELL)  # breaks
    nvb.tcgen05.select(Tcgen05Request("f16", zero_column_mask=True, weight_stationary=True), BLACKWELL)  # keeps


@program("tcgen05.output-lanes")
def lanes_of_fp4():
    nvb.tcgen05.select(Tcgen05Request("mxf4", block_scale=True, disable_output_lane=True), BLACKWELL)  # breaks
    nvb.tcgen05.select(Tcgen05Request("f16", disable_output_lane=True), BLACKWELL)  # keeps


@program("tcgen05.collector")
def collector_of_the_other_operand():
    nvb.tcgen05.select(Tcgen05Request("f16", weight_stationary=True, collector="a::fill"), BLACKWELL)  # breaks
    nvb.tcgen05.select(Tcgen05Request("f16", weight_stationary=True, collector="b0::fill"), BLACKWELL)  # keeps


@program("tcgen05.ptx-version")
def factors_in_old_ptx():
    request = Tcgen05Request("mxf4nvf4", block_scale=True, scale_vector="scale_vec::4X")
    nvb.tcgen05.select(request, Target.parse("sm_100a", (8, 6)))  # breaks
    nvb.tcgen05.select(request, Target.parse("sm_100a", (9, 0)))  # keeps


@program("tcgen05.m")
def m_of_a_pair():
    descriptor = InstructionDescriptor(kind="f16", m=256, n=64, a=f16, b=f16, d=f32)
    raise_all(shape_faults(Tcgen05Request("f16", cta_group=1), descriptor))  # breaks
    raise_all(shape_faults(Tcgen05Request("f16", cta_group=2), descriptor))  # keeps


@program("tcgen05.n")
def n_between_two_steps():
    n = 40  # breaks
    n = 48  # keeps
    raise_all(shape_faults(Tcgen05Request("i8"), InstructionDescriptor(kind="i8", m=128, n=n, a=s8, b=s8, d=s32)))


@program("tcgen05.descriptor")
def descriptor_of_another_kind():
    descriptor = InstructionDescriptor(kind="f16", m=128, n=64, a=f16, b=f16, d=f32)
    raise_all(shape_faults(Tcgen05Request("tf32"), descriptor))  # breaks
    raise_all(shape_faults(Tcgen05Request("f16"), descriptor))  # keeps


@program("tcgen05.descriptor-kind")
def descriptor_of_no_kind():
    InstructionDescriptor(kind="f32", m=128, n=64, a=f32, b=f32, d=f32)  # breaks
    InstructionDescriptor(kind="f16", m=128, n=64, a=f16, b=f16, d=f32)  # keeps


@program("tcgen05.types")
def fp8_as_f16():
    InstructionDescriptor(kind="f16", m=128, n=64, a=e4m3, b=f16, d=f32)  # breaks
    InstructionDescriptor(kind="f8f6f4", m=128, n=64, a=e4m3, b=e4m3, d=f32)  # keeps


@program("tcgen05.modifier")
def floats_that_saturate():
    InstructionDescriptor(kind="f16", m=128, n=64, a=f16, b=f16, d=f32, saturate=True)  # breaks
    InstructionDescriptor(kind="i8", m=128, n=64, a=s8, b=s8, d=s32, saturate=True)  # keeps


@program("tcgen05.k")
def shape_with_too_long_a_k():
    nvb.tcgen05.mma("m128n128k32", f16, f16, f32)  # breaks
    nvb.tcgen05.mma("m128n128k16", f16, f16, f32)  # keeps
