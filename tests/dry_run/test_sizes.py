"""With which numbers a kernel is run: what it asserts, what it assumes, and how few steps there may be."""

from typing import Annotated, Any
from unittest import mock

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import Pointer, f32, i32, u32
from nvbackend.dry_run import launches
from tests.dry_run.kernels.dealt_tiles import tiles_of_three, tiles_of_two, turns_by_barriers
from tests.support.runtime import broken, rules

WIDTH = 128
OUT = Pointer[f32]


def tried(build: Any) -> list[dict[str, int]]:
    """The parameters of each run that `build` makes."""
    seen: list[dict[str, int]] = []
    run = launches.run

    def note(program: Any, launch: Any, make: Any, scalars: dict[str, int], policy: Any) -> Any:
        seen.append(dict(scalars))
        return run(program, launch, make, scalars, policy)

    with mock.patch.object(launches, "run", note):
        build()
    return seen


def ring(k, x, out, steps, stages=3, *, guarded, unit=1):
    """Sums rows of a ring; the prologue fills two stages, where `guarded` only as many as there are steps."""
    rows = k.shared(f32, stages * WIDTH, align=128, name="rows")
    full = k.mbarrier.array(stages, arrivals=1, name="full")
    k.mbarrier.ready()
    thread, total = k.thread_id(), k.var(0.0, f32)

    def fill(step):
        k.mbarrier.arrive(full + step % stages, expect_tx=4 * WIDTH)
        k.bulk.load(rows + step % stages * WIDTH, x + step * WIDTH, 4 * WIDTH, full + step % stages)

    with k.if_(thread == 0):
        for step in range(stages - 1):
            if guarded:
                with k.if_(step * unit < steps):
                    fill(k.const(step, i32))
            else:
                fill(k.const(step, i32))
    with k.range(0, steps, unit) as place:
        step = place // unit
        with k.if_((thread == 0) & (place + (stages - 1) * unit < steps)):
            fill(step + stages - 1)
        k.mbarrier.wait(full + step % stages, step // stages & 1)
        total += rows[step % stages * WIDTH + thread]
        k.barrier.sync()
    out[thread] = total


def counted(scalar: Any, *, guarded: bool = True, unit: int = 1, promise: Any = None, **options: Any):
    @nvb.kernel("sm_90a", threads=WIDTH, **options)
    def counted(k, x: OUT, out: OUT, steps: scalar):
        if promise is not None:
            k.assume(promise(steps))
        ring(k, x, out, steps, guarded=guarded, unit=unit)

    return counted


STEPS = {
    "nothing is said": (counted(i32), [7, 1, 2, 3]),
    "one at least": (counted(i32(minimum=1)), [7, 1, 2, 3]),
    "two at least": (counted(i32(minimum=2)), [7, 2, 3]),
    "eight at least": (counted(i32(minimum=8)), [8]),
    "three at most": (counted(i32(minimum=1, maximum=3)), [3, 1, 2]),
    "even": (counted(i32(multiple_of=2)), [8, 2, 4]),
    "promised": (counted(i32, promise=lambda steps: steps % 4 == 0), [8, 4]),
    "in units": (counted(i32, unit=64), [448, 64, 128, 192]),
    "in large units": (counted(i32(minimum=1, multiple_of=128), unit=64), [512, 128, 256]),
    "three at least": (counted(i32(minimum=3), guarded=False), [7, 3]),
}


@pytest.mark.parametrize("name", STEPS)
def test_which_steps_are_tried(name: str) -> None:
    """Few steps first the least, then one short of the ring of three, then as many; the last run is of more."""
    kernel, expected = STEPS[name]
    seen = [one["steps"] for one in tried(kernel.build)]
    assert seen[: len(expected)] == expected
    assert len(seen) <= len(expected) + 1 and all(one >= max(expected) for one in seen[len(expected) :])


def test_an_odd_and_an_even_number_of_tiles_are_dealt() -> None:
    """The loops of consumers begin elsewhere in each: first one of them gets a tile more, and then all as many."""
    two, three = ([one["tiles"] for one in tried(kernel.build)] for kernel in (tiles_of_two, tiles_of_three))
    assert two == [3, 12]  # the second run is of every second tile
    assert three == [4, 18]
    counted = [one["tiles"] for one in tried(lambda: turns_by_barriers.build(mistake="counts_its_tiles"))]
    assert counted[0] == 3 and counted[-1] == 12


@pytest.mark.parametrize(("scalar", "said"), [(i32, " (with tiles = 3)"), (i32(multiple_of=2), None)])
def test_a_number_of_tiles_that_cannot_be_shared_is_named(scalar: Any, said: str | None) -> None:
    """Two consumers that meet after each tile are right where their numbers of tiles are the same."""

    @nvb.kernel("sm_90a", threads=64)
    def meeting(k, x: OUT, y: OUT, tiles: scalar):
        with k.range(k.block_id() + k.warp_id() * k.block_count(), tiles, 2 * k.block_count()) as tile:
            with k.range(4) as step:
                y[tile * 32 + k.lane_id()] = x[(tile * 4 + step) * 32 + k.lane_id()]
            k.barrier.sync(3, 64)

    found = [one.message for one in broken(meeting.build)] if said else []
    assert all(one.endswith(said) for one in found) and len(found) == (1 if said else 0)
    assert said or rules(meeting.build) == []


def test_an_unguarded_prologue_is_judged_only_where_the_kernel_says_so() -> None:
    """It fills two stages of which one step drains one."""

    def twice(scalar: Any):
        @nvb.kernel("sm_90a", threads=WIDTH)
        def twice(k, x: OUT, out: OUT, steps: scalar):
            ring(k, x, out, steps, guarded=False)
            k.barrier.sync()
            filled = k.mbarrier.array(1, arrivals=1)
            k.mbarrier.ready()
            with k.if_(k.thread_id() == 0), k.if_(steps >= 2):
                k.mbarrier.arrive(filled)
            k.mbarrier.wait(filled, 0)

        return twice

    assert rules(twice(i32(minimum=2)).build) == []
    assert rules(twice(i32(minimum=1)).build) == ["mbarrier.deadlock"]
    with pytest.raises(nvb.DiagnosticError, match=r"\(with steps = 1\)"):
        twice(i32(minimum=1)).build()


def test_each_fill_of_an_unguarded_prologue_is_waited_for() -> None:
    """Each stage has a copy of its own in the text, and one step waits for the first alone."""
    assert rules(counted(i32(minimum=2), guarded=False).build) == []
    assert rules(counted(i32(minimum=1), guarded=False).build) == ["dry-run.fill-left"]


@pytest.mark.parametrize("waits", [True, False])
def test_a_step_may_be_read_ahead(waits) -> None:
    """The last step reads the stage after it, of which it uses nothing: with one step nothing has filled that stage."""

    @nvb.kernel("sm_80", threads=32)
    def ahead(k, x: OUT, out: OUT, steps: i32):
        rows, lane, total = k.shared(f32, 3 * 32, name="rows"), k.lane_id(), k.var(0.0, f32)

        def fill(step):
            with k.if_(step < steps):
                k.cp_async.copy(rows + step % 3 * 32 + lane, x + step * 32 + lane, 4)
            k.cp_async.commit_group()

        def read(step):
            k.cp_async.wait_group(1 if waits else 2)
            k.barrier.sync()
            return rows[step % 3 * 32 + 31 - lane]

        fill(k.const(0, i32))
        fill(k.const(1, i32))
        value = k.var(read(k.const(0, i32)), f32)
        with k.range(steps) as step:
            fill(step + 2)
            total += value
            value.set(read(step + 1))
        out[lane] = total

    assert rules(ahead.build) == ([] if waits else ["async-copy.read-before-wait"])


def test_examples_are_run_in_place_of_the_own_choice() -> None:
    kernel = counted(i32(minimum=1), examples=[{"steps": 5}, {"steps": 11}])
    assert [one["steps"] for one in tried(kernel.build)] == [5, 11]
    assert [one["steps"] for one in tried(kernel.check)] == [5, 11]
    assert tried(lambda: kernel.build(check=False)) == []


def test_check_runs_what_it_is_given() -> None:
    kernel = counted(i32(minimum=1))
    assert [one["steps"] for one in tried(lambda: kernel.check(steps=9))] == [9]
    assert [one["steps"] for one in tried(lambda: kernel.check({"steps": 4}, {"steps": 2}, steps=3))] == [4, 2, 3]
    assert kernel.check(steps=1).signature == kernel.build().signature


def test_check_takes_constants_of_the_build_by_name() -> None:
    @nvb.kernel("sm_90a", threads=WIDTH)
    def staged(k, x: OUT, out: OUT, steps: i32, *, stages=3):
        ring(k, x, out, steps, stages, guarded=True)

    assert "expect_tx" in staged.check(steps=2, stages=4).ir
    assert rules(lambda: staged.check(stepz=2)) == ["kernel.check"]


def test_an_example_keeps_to_what_is_asserted() -> None:
    kernel = counted(i32(minimum=2, multiple_of=2))
    [found] = broken(lambda: kernel.check(steps=3))
    assert found.rule_id == "kernel.check"
    problem = found.message
    assert "steps=3 is not at least 2, a multiple of 2, which its annotation asserts" in problem


def test_annotated_for_type_checkers() -> None:
    kernel = counted(Annotated[i32, nvb.Scalar(i32, minimum=4)])
    assert kernel.parameters()[2].type == i32(minimum=4)


LAUNCHES = {
    "n": (i32(minimum=1, maximum=12, multiple_of=4), [4, 12, np.int32(8)], [0, 16, 6, -4, np.int64(6)]),
    "unsigned": (u32(minimum=5), [5, 2**32 - 1], [4, 0]),
    "negative": (i32(maximum=-2), [-2, -(2**31)], [-1, 0]),
}


@pytest.mark.parametrize("name", LAUNCHES)
def test_a_launch_compares_its_arguments(name: str) -> None:
    scalar, right, wrong = LAUNCHES[name]

    @nvb.kernel("sm_90a", threads=32)
    def stored(k, out: Pointer[i32], n: scalar):
        out[0] = n.bitcast(i32)

    loaded = nvb.runtime.load(stored.compile(assemble=False), device="simulator")
    for number in right:
        out = np.zeros(1, np.int32)
        loaded.launch(1, out, number)
        assert int(out[0]) & 0xFFFF_FFFF == int(number) & 0xFFFF_FFFF
    for number in wrong:
        for _ in range(2):  # arguments that passed once take a shorter way
            assert rules(lambda number=number: loaded.launch(1, np.zeros(1, np.int32), number)) == ["launch.asserted"]


WRONG = {
    "f32": (lambda: f32(minimum=1), "only integers"),
    "0": (lambda: i32(multiple_of=0), "multiple_of is 0"),
    "empty": (lambda: i32(minimum=9, maximum=8), "no s32 is in these bounds"),
    "no multiple": (lambda: i32(minimum=9, maximum=15, multiple_of=8), "no s32"),
}


@pytest.mark.parametrize("name", WRONG)
def test_assertions_that_cannot_hold(name: str) -> None:
    call, problem = WRONG[name]
    [found] = broken(call)
    assert found.rule_id == "kernel.scalar-values" and problem in found.message


def test_llvm_assumes_what_is_asserted() -> None:
    """The branch that a minimum rules out is not there."""

    def kernel(scalar: Any):
        @nvb.kernel("sm_90a", threads=32)
        def kernel(k, out: Pointer[i32], n: scalar):
            with k.if_(n < 1):
                out[1] = 7
            out[0] = n % 8

        return kernel.compile(assemble=False).ptx

    assert "setp" in kernel(i32) and "and.b32" in kernel(i32)
    assert "setp" not in kernel(i32(minimum=1)) and "and.b32" not in kernel(i32(minimum=1, multiple_of=8))


@pytest.mark.parametrize(("steps", "warned"), [(-4, True), (0, False), (3, False)])
def test_a_negative_number_of_steps_is_a_warning(steps: int, warned: bool) -> None:
    """No loop that it bounds makes a round: nothing would be judged."""

    @nvb.kernel("sm_90", threads=WIDTH)
    def rows(k, x: OUT, y: OUT, steps: i32, offset: i32):
        words, thread = k.shared(f32, WIDTH), k.thread_id()
        with k.range(steps) as step:
            words[thread] = x[step * WIDTH + thread + offset]
            k.barrier.sync()
            y[step * WIDTH + thread] = words[WIDTH - 1 - thread]
            k.barrier.sync()

    said = rows.build(check=[{"steps": steps, "offset": -4}]).diagnostics
    assert [one.rule_id for one in said] == (["dry-run.no-sizes"] if warned else [])
    assert not warned or f"steps is {steps}" in said[0].message


@nvb.kernel("sm_90", threads=64)
def signalled(k, x: nvb.Pointer[nvb.f32], stages: i32(minimum=2, maximum=5), *, without, rounds):
    """After some rounds all wait for an arrival that one number of stages leaves out."""
    done = k.mbarrier.array(1, arrivals=1, name="done")
    k.mbarrier.ready()
    with k.range(rounds):
        x[k.thread_id()] = 1.0
        k.barrier.sync()
    with k.if_((k.thread_id() == 0) & (stages != without)):
        k.mbarrier.arrive(done)
    k.mbarrier.wait(done, 0)


@pytest.mark.parametrize("rounds", [1, 200, 1000])
def test_the_least_and_the_greatest_of_a_few_values_are_tried_in_large_kernels_too(rounds: int) -> None:
    for without in (2, 5):
        assert rules(lambda without=without: signalled.build(without=without, rounds=rounds)) == ["mbarrier.deadlock"]
    assert rules(lambda: signalled.build(without=6, rounds=rounds)) == []


def test_values_between_are_tried_where_there_is_room() -> None:
    assert rules(lambda: signalled.build(without=3, rounds=1)) == ["mbarrier.deadlock"]
    assert rules(lambda: signalled.build(without=3, rounds=1000)) == []
    assert rules(lambda: signalled.build(without=3, rounds=1000, check=[{"stages": 3}])) == ["mbarrier.deadlock"]
