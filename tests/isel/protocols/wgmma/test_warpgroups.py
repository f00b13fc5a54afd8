"""The WGMMA protocol in kernels as they are written: several warpgroups, nested loops, branches, A in registers.

Lines of a program that are wrong end in `# broken`.
"""

from __future__ import annotations

import dataclasses
import inspect

import pytest

import nvbackend as nvb
from nvbackend import Major, SmemLayout, SwizzleMode, f16, f32, i32, u32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.signature import Parameter, Pointer, Scalar

MARK = "# broken"
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


def drained_behind_two_loops(s):
    with s.k.range(s.n):
        with s.k.range(s.n), s.k.wgmma.group(in_flight=1):
            s.mma()
        s.k.wgmma.wait_group(0, drains=[s.acc])
        s.out[0] = s.acc[0]


def two_accumulators_in_turn(s):
    other = s.k.wgmma.accumulator(64, name="other")
    with s.k.range(s.n):
        s.group()
        s.group(other)
        s.k.wgmma.wait_group(1, drains=[s.acc])
        s.out[0] = s.acc[0]
        s.k.wgmma.wait_group(0, drains=[other])
        s.out[1] = other[0]


def drained_on_both_sides(s):
    s.group()
    with s.k.if_(s.n == 0):
        s.k.wgmma.wait_group(0)
    with s.k.else_():
        s.k.wgmma.wait_group(0)
    s.out[0] = s.acc[0]


def fragment_read_behind_the_wait(s):
    a = s.k.wgmma.fragment([s.k.const(0, u32)] * 4, f16)
    with s.k.wgmma.group():
        s.k.wgmma.mma_async(s.acc, a, s.tile, FROM_REGISTERS)
    s.out[0] = a.registers[0].bitcast(f32)


def filled_and_read(s):
    s.acc.fill(0.0)
    s.out[0] = s.acc[0]


def written_in_some_rounds(s):
    with s.k.range(s.n), s.k.wgmma.group():
        s.mma()
    s.out[0] = s.acc[0]


def overwritten_first_and_added_to_behind(s):
    with s.k.wgmma.group():
        s.mma(accumulate=False)
        s.mma(accumulate=True)
    s.out[0] = s.acc[0]


def added_to_what_ordinary_code_wrote(s):
    s.acc.fill(1.0)
    with s.k.wgmma.group():
        s.mma(accumulate=True)
    s.out[0] = s.acc[0]


def added_to_from_the_second_round_on(s):
    with s.k.range(s.n) as turn, s.k.wgmma.group():
        s.mma(accumulate=turn > 0)
    s.out[0] = s.acc[0]


def first_round_in_front_of_the_loop(s):
    """The loop has no rounds where the branch is not taken, which nothing in the blocks says."""
    with s.k.if_(s.n > 0), s.k.wgmma.group():
        s.mma(accumulate=False)
    with s.k.range(s.n - 1), s.k.wgmma.group():
        s.mma(accumulate=True)


KEPT = [
    *(each_warpgroup_its_own, drained_behind_two_loops, two_accumulators_in_turn, drained_on_both_sides),
    *(fragment_read_behind_the_wait, filled_and_read, written_in_some_rounds),
    *(overwritten_first_and_added_to_behind, added_to_what_ordinary_code_wrote),
    *(added_to_from_the_second_round_on, first_round_in_front_of_the_loop),
]


def drained_in_one_warpgroup_only(s):
    s.group()
    with s.k.if_(s.k.warpgroup_id() == 0):
        s.k.wgmma.wait_group(0)
    s.out[0] = s.acc[0]  # broken
    s.k.wgmma.wait_group(0)


def left_in_flight_by_the_inner_loop(s):
    with s.k.range(s.n):
        with s.k.range(s.n), s.k.wgmma.group(in_flight=1):
            s.mma()
        s.out[0] = s.acc[0]  # broken
    s.k.wgmma.wait_group(0)


def left_in_flight_for_the_next_round(s):
    with s.k.range(s.n):
        s.acc.fill(1.0)  # broken
        s.group()
    s.k.wgmma.wait_group(0)


def the_other_accumulator_is_drained(s):
    other = s.k.wgmma.accumulator(64, name="other")
    s.group()
    s.group(other)
    s.k.wgmma.wait_group(1)
    s.out[0] = other[0]  # broken
    s.k.wgmma.wait_group(0)


def fragment_read_in_flight(s):
    a = s.k.wgmma.fragment([s.k.const(0, u32)] * 4, f16)
    with s.k.wgmma.group(in_flight=1):
        s.k.wgmma.mma_async(s.acc, a, s.tile, FROM_REGISTERS)
    s.out[0] = a.registers[0].bitcast(f32)  # broken
    s.k.wgmma.wait_group(0)


def returned_in_flight(s):
    s.group()
    s.k.return_if(s.k.warpgroup_id() == 1)  # broken
    s.k.wgmma.wait_group(0)


def stored_without_an_mma(s):
    s.out[0] = s.acc[0]  # broken
    s.out[1] = s.acc[1]


def stored_before_the_mma(s):
    s.out[0] = s.acc[0]  # broken
    with s.k.wgmma.group():
        s.mma()


def multiplied_on_the_other_side(s):
    with s.k.if_(s.n == 0), s.k.wgmma.group():
        s.mma()
    with s.k.else_():
        s.out[0] = s.acc[0]  # broken


def added_to_nothing(s):
    with s.k.wgmma.group():
        s.k.wgmma.mma_async(s.acc, s.tile, s.tile, REQUEST, accumulate=True)  # broken
        s.mma()
    s.out[0] = s.acc[0]


def added_to_nothing_in_the_first_round(s):
    with s.k.range(s.n), s.k.wgmma.group():
        s.k.wgmma.mma_async(s.acc, s.tile, s.tile, REQUEST, accumulate=True)  # broken
        s.mma(accumulate=True)
    s.out[0] = s.acc[0]


BROKEN = [
    (drained_in_one_warpgroup_only, "wgmma.read-in-flight"),
    (left_in_flight_by_the_inner_loop, "wgmma.read-in-flight"),
    (left_in_flight_for_the_next_round, "wgmma.write-in-flight"),
    (the_other_accumulator_is_drained, "wgmma.read-in-flight"),
    (fragment_read_in_flight, "wgmma.read-in-flight"),
    (returned_in_flight, "wgmma.missing-wait"),
    (stored_without_an_mma, "wgmma.unwritten"),
    (stored_before_the_mma, "wgmma.unwritten"),
    (multiplied_on_the_other_side, "wgmma.unwritten"),
    (added_to_nothing, "wgmma.unwritten"),
    (added_to_nothing_in_the_first_round, "wgmma.unwritten"),
]


def found(program):
    """The rules that it breaks and the lines, of all that concern wgmma."""
    scene = Scene()
    try:
        program(scene)
        diagnostics = scene.k.finish().diagnostics
    except nvb.DiagnosticError as error:
        diagnostics = error.diagnostics
    return {(one.rule_id, one.location.line) for one in diagnostics if one.rule_id.startswith("wgmma.")}


@pytest.mark.parametrize("program", KEPT, ids=lambda one: one.__name__)
def test_right_programs_raise_no_alarm(program):
    assert found(program) == set()


@pytest.mark.parametrize(("program", "rule"), BROKEN, ids=[one.__name__ for one, _ in BROKEN])
def test_each_mistake_is_found_at_its_line(program, rule):
    lines, first = inspect.getsourcelines(program)
    assert found(program) == {(rule, number) for number, line in enumerate(lines, first) if MARK in line}
