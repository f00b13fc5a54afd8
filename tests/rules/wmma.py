"""wmma: fragments that are loaded, multiplied and stored by a warp."""

from __future__ import annotations

from dataclasses import replace

import nvbackend as nvb
from nvbackend import Target, WmmaMoveRequest, WmmaRequest, b1, bf16, f16, f32, s32, tf32
from tests.rules.example import kernel, program
from tests.rules.setup import HOPPER

CUBE = "m16n16k16"
HALF = WmmaRequest((16, 16, 16), f16, f16, f32, f32)
BITS = WmmaRequest((8, 8, 128), b1, b1, s32, s32, popc="xor")


@program("wmma.types")
def two_types_of_16_bits():
    nvb.wmma.select(replace(HALF, b=bf16), HOPPER)  # breaks
    nvb.wmma.select(replace(HALF, a=bf16, b=bf16), HOPPER)  # keeps


@program("wmma.shape")
def half_a_cube():
    nvb.wmma.select(replace(HALF, shape=(16, 16, 8)), HOPPER)  # breaks
    nvb.wmma.select(replace(HALF, shape=(16, 16, 16)), HOPPER)  # keeps


@program("wmma.layout")
def bits_by_columns():
    nvb.wmma.select(replace(BITS, a_layout="col"), HOPPER)  # breaks
    nvb.wmma.select(replace(BITS, a_layout="row"), HOPPER)  # keeps


@program("wmma.satfinite")
def floats_that_saturate():
    nvb.wmma.select(replace(HALF, satfinite=True), HOPPER)  # breaks
    nvb.wmma.select(HALF, HOPPER)  # keeps


@program("wmma.rounding")
def rounding_of_halves():
    nvb.wmma.select(replace(HALF, rounding="rn"), HOPPER)  # breaks
    nvb.wmma.select(HALF, HOPPER)  # keeps


@program("wmma.popc")
def bit_operation_of_floats():
    nvb.wmma.select(replace(HALF, popc="xor"), HOPPER)  # breaks
    nvb.wmma.select(BITS, HOPPER)  # keeps


@program("wmma.target")
def bf16_before_ampere():
    target = Target.parse("sm_75")  # breaks
    target = Target.parse("sm_80")  # keeps
    nvb.wmma.select(replace(HALF, a=bf16, b=bf16), target)


@program("wmma.ptx-version")
def and_in_old_ptx():
    target = Target.parse("sm_80", (7, 0))  # breaks
    target = Target.parse("sm_80", (7, 1))  # keeps
    nvb.wmma.select(replace(BITS, popc="and"), target)


@program("wmma.fragment")
def load_of_the_result():
    nvb.wmma.select(WmmaMoveRequest("load", "d", (16, 16, 16), f32), HOPPER)  # breaks
    nvb.wmma.select(WmmaMoveRequest("load", "c", (16, 16, 16), f32), HOPPER)  # keeps


@program("wmma.fragment-type")
def tf32_in_a_cube():
    nvb.wmma.select(WmmaMoveRequest("load", "a", (16, 16, 16), tf32), HOPPER)  # breaks
    nvb.wmma.select(WmmaMoveRequest("load", "a", (16, 16, 8), tf32), HOPPER)  # keeps


@program("wmma.space")
def fragment_in_local_memory():
    nvb.wmma.select(WmmaMoveRequest("load", "a", (16, 16, 16), f16, space="local"), HOPPER)  # breaks
    nvb.wmma.select(WmmaMoveRequest("load", "a", (16, 16, 16), f16, space="shared"), HOPPER)  # keeps


@kernel("wmma.alignment")
def fragment_at_16_bytes(k, a: nvb.Pointer(f16, align=32)):
    k.wmma.load("a", CUBE, f16, a + 8)  # breaks
    k.wmma.load("a", CUBE, f16, a + 16)  # keeps


@kernel("wmma.stride")
def rows_of_34_bytes(k, a: nvb.Pointer(f16, align=32)):
    k.wmma.load("a", CUBE, f16, a, stride=17)  # breaks
    k.wmma.load("a", CUBE, f16, a, stride=24)  # keeps


@kernel("wmma.overlap")
def rows_over_one_another(k, c: nvb.Pointer(f32, align=32)):
    acc = k.wmma.accumulator(CUBE)
    k.wmma.store(c, acc, stride=8)  # breaks
    k.wmma.store(c, acc, stride=16)  # keeps


@kernel("wmma.element")
def address_of_another_type(k, a: nvb.Pointer(f16, align=32), c: nvb.Pointer(f32, align=32)):
    k.wmma.load("a", CUBE, f16, c)  # breaks
    k.wmma.load("a", CUBE, f16, a)  # keeps


@kernel("wmma.operand")
def fragment_of_the_other_operand(k, x: nvb.Pointer(f16, align=32)):
    a, b = k.wmma.load("a", CUBE, f16, x), k.wmma.load("b", CUBE, f16, x)
    k.wmma.mma(b, b, k.wmma.accumulator(CUBE))  # breaks
    k.wmma.mma(a, b, k.wmma.accumulator(CUBE))  # keeps


@kernel("wmma.arity")
def half_a_fragment(k, x: nvb.Pointer(f16, align=32)):
    values = k.wmma.load("a", CUBE, f16, x).values()
    k.wmma.fragment("a", CUBE, f16, values[:4])  # breaks
    k.wmma.fragment("a", CUBE, f16, values)  # keeps


@kernel("wmma.opaque")
def element_of_a_register(k, c: nvb.Pointer(f32, align=32)):
    k.wmma.load("c", CUBE, f32, c).position(0, 0)  # breaks
    c[k.thread_id()]  # keeps
