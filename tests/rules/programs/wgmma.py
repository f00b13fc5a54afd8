"""Multiplies of warpgroups in kernels: `program(scene)`; of wrong ones, the lines are marked."""

from __future__ import annotations

import dataclasses

import nvbackend as nvb
from nvbackend import Major, SmemLayout, SwizzleMode, f16, f32, i32, u32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.signature import Parameter, Pointer, Scalar
from tests.rules.programs.program import breaks, keeps

REQUEST = nvb.wgmma.mma_async("m64n64k16", f16, f16, f32)


FROM_REGISTERS = dataclasses.replace(REQUEST, a_in_registers=True)


class Scene:
    """Two warpgroups, a tile, an accumulator, and memory to store numbers to."""

    def __init__(self):
        parameters = [Parameter("out", Pointer(f32)), Parameter("n", Scalar(i32))]
        self.k = KernelBuilder("kernel", "sm_90a", threads=256, parameters=parameters)
        self.out, self.n = self.k.arguments
        self.tile = self.k.shared_tile(SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 64))
        self.acc = self.k.wgmma.accumulator(64, name="acc")

    def mma(self, acc=None, **options):
        self.k.wgmma.mma_async(acc or self.acc, self.tile, self.tile, REQUEST, **options)

    def group(self, acc=None):
        self.k.wgmma.fence()
        self.mma(acc)
        self.k.wgmma.commit_group()


@keeps()
def each_warpgroup_its_own(s):
    other = s.k.wgmma.accumulator(64, name="other")
    with s.k.if_(s.k.warpgroup_id() == 0):
        s.group()
        s.k.wgmma.wait_group(0, drains=[s.acc])
        s.out[0] = s.acc[0]
    with s.k.else_():
        s.group(other)
        s.k.wgmma.wait_group(0, drains=[other])
        s.out[1] = other[0]


@keeps()
def drained_behind_two_loops(s):
    with s.k.range(s.n):
        with s.k.range(s.n), s.k.wgmma.group(in_flight=1):
            s.mma()
        s.k.wgmma.wait_group(0, drains=[s.acc])
        s.out[0] = s.acc[0]


@keeps()
def two_accumulators_in_turn(s):
    other = s.k.wgmma.accumulator(64, name="other")
    with s.k.range(s.n):
        s.group()
        s.group(other)
        s.k.wgmma.wait_group(1, drains=[s.acc])
        s.out[0] = s.acc[0]
        s.k.wgmma.wait_group(0, drains=[other])
        s.out[1] = other[0]


@keeps()
def drained_on_both_sides(s):
    s.group()
    with s.k.if_(s.n == 0):
        s.k.wgmma.wait_group(0)
    with s.k.else_():
        s.k.wgmma.wait_group(0)
    s.out[0] = s.acc[0]


@keeps()
def fragment_read_behind_the_wait(s):
    a = s.k.wgmma.fragment([s.k.const(0, u32)] * 4, f16)
    with s.k.wgmma.group():
        s.k.wgmma.mma_async(s.acc, a, s.tile, FROM_REGISTERS)
    s.out[0] = a.registers[0].bitcast(f32)


@keeps()
def filled_and_read(s):
    s.acc.fill(0.0)
    s.out[0] = s.acc[0]


@keeps()
def written_in_some_rounds(s):
    with s.k.range(s.n), s.k.wgmma.group():
        s.mma()
    s.out[0] = s.acc[0]


@keeps()
def overwritten_first_and_added_to_behind(s):
    with s.k.wgmma.group():
        s.mma(accumulate=False)
        s.mma(accumulate=True)
    s.out[0] = s.acc[0]


@keeps()
def added_to_what_ordinary_code_wrote(s):
    s.acc.fill(1.0)
    with s.k.wgmma.group():
        s.mma(accumulate=True)
    s.out[0] = s.acc[0]


@keeps()
def added_to_from_the_second_round_on(s):
    with s.k.range(s.n) as turn, s.k.wgmma.group():
        s.mma(accumulate=turn > 0)
    s.out[0] = s.acc[0]


@keeps()
def first_round_in_front_of_the_loop(s):
    """The loop has no rounds where the branch is not taken, which nothing in the blocks says."""
    with s.k.if_(s.n > 0), s.k.wgmma.group():
        s.mma(accumulate=False)
    with s.k.range(s.n - 1), s.k.wgmma.group():
        s.mma(accumulate=True)


@breaks("wgmma.read-in-flight")
def drained_in_one_warpgroup_only(s):
    s.group()
    with s.k.if_(s.k.warpgroup_id() == 0):
        s.k.wgmma.wait_group(0)
    s.out[0] = s.acc[0]  # breaks
    s.k.wgmma.wait_group(0)


@breaks("wgmma.read-in-flight")
def left_in_flight_by_the_inner_loop(s):
    with s.k.range(s.n):
        with s.k.range(s.n), s.k.wgmma.group(in_flight=1):
            s.mma()
        s.out[0] = s.acc[0]  # breaks
    s.k.wgmma.wait_group(0)


@breaks("wgmma.write-in-flight")
def left_in_flight_for_the_next_round(s):
    with s.k.range(s.n):
        s.acc.fill(1.0)  # breaks
        s.group()
    s.k.wgmma.wait_group(0)


@breaks("wgmma.read-in-flight")
def the_other_accumulator_is_drained(s):
    other = s.k.wgmma.accumulator(64, name="other")
    s.group()
    s.group(other)
    s.k.wgmma.wait_group(1)
    s.out[0] = other[0]  # breaks
    s.k.wgmma.wait_group(0)


@breaks("wgmma.read-in-flight")
def fragment_read_in_flight(s):
    a = s.k.wgmma.fragment([s.k.const(0, u32)] * 4, f16)
    with s.k.wgmma.group(in_flight=1):
        s.k.wgmma.mma_async(s.acc, a, s.tile, FROM_REGISTERS)
    s.out[0] = a.registers[0].bitcast(f32)  # breaks
    s.k.wgmma.wait_group(0)


@breaks("wgmma.missing-wait")
def returned_in_flight(s):
    s.group()
    s.k.return_if(s.k.warpgroup_id() == 1)  # breaks
    s.k.wgmma.wait_group(0)


@breaks("wgmma.unwritten")
def stored_without_an_mma(s):
    s.out[0] = s.acc[0]  # breaks
    s.out[1] = s.acc[1]


@breaks("wgmma.unwritten")
def stored_before_the_mma(s):
    s.out[0] = s.acc[0]  # breaks
    with s.k.wgmma.group():
        s.mma()


@breaks("wgmma.unwritten")
def multiplied_on_the_other_side(s):
    with s.k.if_(s.n == 0), s.k.wgmma.group():
        s.mma()
    with s.k.else_():
        s.out[0] = s.acc[0]  # breaks


@breaks("wgmma.unwritten")
def added_to_nothing(s):
    with s.k.wgmma.group():
        s.k.wgmma.mma_async(s.acc, s.tile, s.tile, REQUEST, accumulate=True)  # breaks
        s.mma()
    s.out[0] = s.acc[0]


@breaks("wgmma.unwritten")
def added_to_nothing_in_the_first_round(s):
    with s.k.range(s.n), s.k.wgmma.group():
        s.k.wgmma.mma_async(s.acc, s.tile, s.tile, REQUEST, accumulate=True)  # breaks
        s.mma(accumulate=True)
    s.out[0] = s.acc[0]
