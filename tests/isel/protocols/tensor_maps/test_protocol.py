"""Maps that a kernel changes: which order of change, release, acquire and copy is wrong, by the memory model."""

from __future__ import annotations

import itertools
import random
from contextlib import nullcontext

import pytest

import nvbackend as nvb
from nvbackend import f32, i32, i64, u32

ROW = nvb.TensorMap(f32, box=(1, 32), swizzle=0)


def said(function):
    """The rules that the verifier's diagnostics of a kernel of one warp name."""
    try:
        nvb.kernel("sm_90a", threads=32)(function).build()
    except nvb.DiagnosticError as error:
        return [diagnostic.rule_id for diagnostic in error.diagnostics]
    return []


def program(steps, *, loop=False, own=False):
    """A kernel that changes a map, and then does these steps in one thread; in a loop, rounds of all of it."""

    def kernel(k, maps: nvb.Pointer(u32, align=128), x: nvb.Pointer[f32], n: i32):
        row, full = k.shared(f32, 32, align=128), k.mbarrier.array(1, arrivals=1)
        k.mbarrier.ready()

        def place():
            return maps + k.block_id() * 64 if own else maps

        def run(phase):
            for step in steps:
                if step == "change":
                    k.tensormap.replace(place(), "global_address", k.generic_address(x).bitcast(i64))
                elif step == "store":
                    place()[k.lane_id()] = 0
                elif step == "store beside it":
                    place()[k.lane_id() + 32] = 0
                elif step == "release":
                    k.tensormap.release()
                elif step == "acquire":
                    k.tensormap.acquire(place())
                elif step == "acquire another":
                    k.tensormap.acquire(place() + 32)
                elif step == "acquire some":
                    k.tensormap.acquire(maps + x[0].to(i32) * 32)
                elif step == "change another":
                    k.tensormap.replace(place() + 32, "global_address", k.generic_address(x).bitcast(i64))
                else:
                    where = place() + 32 if step == "copy by another" else place()
                    k.mbarrier.arrive(full, expect_tx=128)
                    k.tma.load_box(row, k.tensormap.at(where, ROW), (0, 0), full)
                    k.mbarrier.wait(full, phase)

        with k.one_thread():
            if loop:
                with k.range(n) as i:
                    run(i & 1)
            else:
                run(0)

    return kernel


@pytest.mark.parametrize("change", ["change", "store"])
@pytest.mark.parametrize("own", [False, True])
def test_every_order_of_the_steps(own: bool, change: str) -> None:
    """A copy after the change, or a plain store to the map, needs a release and then an acquire between them."""
    for before in itertools.permutations((change, "release", "acquire", "copy")):
        late = before[before.index(change) :]
        tail = late[: late.index("copy")] if "copy" in late else None
        expected = []
        if tail is not None and "acquire" not in tail:
            expected = ["tensor-map.not-acquired"]
        elif tail is not None and "release" not in tail[: tail.index("acquire")]:
            expected = ["tensor-map.not-released"]
        assert said(program(before, own=own)) == expected, before


def expected(steps):
    """What is wrong with each copy, by the steps between a change of its map and the copy."""
    found = []
    for end, copy in enumerate(steps):
        if not copy.startswith("copy"):
            continue
        another = " another" if copy.endswith("another") else ""
        for start, change in enumerate(steps[:end]):
            if change not in ((f"change{another}", f"store{another}") if not another else (f"change{another}",)):
                continue
            between = steps[start + 1 : end]
            acquired = [at for at, step in enumerate(between) if step in (f"acquire{another}", "acquire some")]
            if not acquired:
                found.append("tensor-map.not-acquired")
                break
            if "release" not in between[: acquired[-1]]:
                found.append("tensor-map.not-released")
                break
    return found


STEPS = ("change", "change another", "store", "release", "acquire", "acquire another", "acquire some", "copy")


@pytest.mark.parametrize("seed", range(24))
def test_two_maps_in_any_order(seed: int) -> None:
    """Each copy is told of the first change that it may miss."""
    draw = random.Random(seed)
    steps = ["change", *draw.choices(STEPS, k=5), *draw.sample(("copy", "copy by another"), 2)]
    assert {*said(program(steps))} == {*expected(steps)}, steps


def test_a_store_beside_the_map_changes_nothing() -> None:
    assert said(program(("store beside it", "copy"))) == []


def test_another_map_is_another_map() -> None:
    steps = ("change", "release", "acquire another", "copy")
    assert said(program(steps)) == ["tensor-map.not-acquired"]


def test_in_a_loop_the_next_round_comes_after_this_one() -> None:
    assert said(program(("acquire", "copy", "change", "release"), loop=True)) == []
    assert said(program(("copy", "change", "release"), loop=True)) == ["tensor-map.not-acquired"]


@pytest.mark.parametrize("other", [False, True])
def test_a_change_that_only_some_launches_make(other: bool) -> None:
    """It is before the copy for certain where both are under the same condition."""

    def kernel(k, maps: nvb.Pointer(u32, align=128), x: nvb.Pointer[f32], n: i32):
        row, full = k.shared(f32, 32, align=128), k.mbarrier.array(1, arrivals=1)
        k.mbarrier.ready()
        with k.one_thread():
            with k.if_(n == 1):
                k.tensormap.replace(maps, "global_address", k.generic_address(x).bitcast(i64))
                k.tensormap.release()
            with k.if_(n == 2 if other else n == 1):
                k.mbarrier.arrive(full, expect_tx=128)
                k.tma.load_box(row, k.tensormap.at(maps, ROW), (0, 0), full)
        k.mbarrier.wait(full, 0)

    assert said(kernel) == ["tensor-map.not-acquired"] * (not other)


CONDITIONS = {
    "always": (lambda k, n: None, None),
    "n": (lambda k, n: n == 1, "n"),
    "block": (lambda k, n: k.block_id() == 1, "block"),
    "thread": (lambda k, n: k.thread_id() == 5, None),
}
"""Conditions, and what else than the thread decides them."""


@pytest.mark.parametrize("copying", CONDITIONS)
@pytest.mark.parametrize("changing", CONDITIONS)
def test_a_change_comes_before_a_copy_under_its_conditions(changing: str, copying: str) -> None:
    """A copy that others make without a change is not said to follow one; which thread makes either is one matter."""

    def kernel(k, maps: nvb.Pointer(u32, align=128), x: nvb.Pointer[f32], n: i32):
        row, full = k.shared(f32, 32, align=128), k.mbarrier.array(1, arrivals=1)
        k.mbarrier.ready()
        for step, name in (("change", changing), ("copy", copying)):
            condition = CONDITIONS[name][0](k, n)
            with nullcontext() if condition is None else k.if_(condition), k.if_(k.thread_id() == 5):
                if step == "change":
                    k.tensormap.replace(maps, "global_address", k.generic_address(x).bitcast(i64))
                else:
                    k.mbarrier.arrive(full, expect_tx=128)
                    k.tma.load_box(row, k.tensormap.at(maps, ROW), (0, 0), full)

    needed, given = CONDITIONS[changing][1], CONDITIONS[copying][1]
    assert said(kernel) == ["tensor-map.not-acquired"] * (needed in (None, given))
