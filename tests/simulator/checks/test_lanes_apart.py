"""What orders the lanes of a warp, where a kernel runs."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from tests.support.lanes_apart import CASES, Case
from tests.support.runtime import rules as broken_rules

SEEDS = range(4)
MISSING, REFILL = "simulator.missing-warp-sync", "proxy.refill-in-flight"


def rules(case: Case) -> set[str]:
    """The rules that runs of the kernel break, "" for none."""
    compiled = case.kernel.build(**case.constants, check=False).compile(cache=nvb.Cache.disabled(), assemble=False)
    rounds = [4] * (len(compiled.signature.parameters) - 2)
    found = set()
    for seed in SEEDS:
        arrays = np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32)
        try:
            nvb.runtime.load(compiled, device="simulator", seed=seed).launch(2, *arrays, *rounds)
            found.add("")
        except nvb.DiagnosticError as error:
            found.add(error.diagnostics[0].rule_id)
    return found


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_lanes_that_nothing_orders_are_found_and_no_others(case: Case) -> None:
    found = rules(case)
    assert found <= {MISSING, REFILL} if case.is_told_by_a_run else found == {""}, found


HALVES = 0xFFFF, 0xFFFF0000
FULL = 0xFFFFFFFF


@nvb.kernel("sm_80", threads=64)
def turned(k, x: nvb.Pointer(nvb.i32), y: nvb.Pointer(nvb.i32), *, how="", width=32):
    """Each segment of lanes turned round; lanes of `how` come together between the stores and the loads."""
    lane, row = k.lane_id(), k.shared(nvb.i32, 64)
    last = k.thread_id() // width * width + width - 1
    row[k.thread_id()] = x[k.thread_id()]
    if how == "tiles":
        k.warp.sync(k.const((1 << width) - 1, nvb.u32) << (lane // width * width).to(nvb.u32))
    elif how == "votes of tiles":
        members = k.const((1 << width) - 1, nvb.u32) << (lane // width * width).to(nvb.u32)
        k.warp.vote("any", lane == 0, members=members)
    elif how == "one after another":
        with k.if_(lane < 16):
            k.warp.sync(HALVES[0])
        with k.else_():
            k.warp.sync(HALVES[1])
    elif how == "over the middle":  # lanes 12 to 19 hear of all, and tell the others
        k.warp.sync(k.select(lane < 16, k.const(HALVES[0], nvb.u32), k.const(HALVES[1], nvb.u32)))
        with k.if_((lane >= 12) & (lane < 20)):
            k.warp.sync(0xFF000)
        k.warp.sync(k.select(lane < 16, k.const(HALVES[0], nvb.u32), k.const(HALVES[1], nvb.u32)))
    elif how == "all":
        k.warp.sync(FULL)
    y[k.thread_id()] = row[last - lane % width]


@pytest.mark.parametrize(
    ("how", "width", "is_right"),
    [
        ("all", 32, True),
        ("tiles", 8, True),
        ("votes of tiles", 8, True),
        ("one after another", 16, True),
        ("over the middle", 32, True),
        ("tiles", 32, True),
        ("one after another", 32, False),
    ],
)
def test_lanes_outside_of_a_mask_have_not_met(how: str, width: int, is_right: bool) -> None:
    compiled = turned.build(how=how, width=width).compile(assemble=False)
    x, y = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    for seed in SEEDS:
        launch = nvb.runtime.load(compiled, device="simulator", seed=seed).launch
        if is_right:
            launch(1, x, y)
            assert np.array_equal(y.reshape(-1, width), x.reshape(-1, width)[:, ::-1])
        else:
            with pytest.raises(nvb.DiagnosticError) as caught:
                launch(1, x, y)
            assert [one.rule_id for one in caught.value.diagnostics] == [MISSING]


@nvb.kernel("sm_90", threads=128)
def leaders_arrive(k, x: nvb.Pointer(nvb.i32), y: nvb.Pointer(nvb.i32), *, width):
    """The first lane of each eight arrives for all of them, after segments of `width` lanes have met."""
    thread, lane, row = k.thread_id(), k.lane_id(), k.shared(nvb.i32, 64)
    full = k.mbarrier.array(1, arrivals=8)
    k.mbarrier.ready()
    with k.if_(thread < 64):
        row[thread] = x[thread]
        k.warp.sync(k.const((1 << width) - 1, nvb.u32) << (lane // width * width).to(nvb.u32))
        k.mbarrier.arrive(full, when=lane % 8 == 0)
    with k.else_():
        k.mbarrier.wait(full, 0)
        y[thread - 64] = row[127 - thread]


@pytest.mark.parametrize(("width", "is_right"), [(32, True), (16, True), (8, True), (4, False)])
def test_a_lane_tells_of_those_that_it_has_met(width: int, is_right: bool) -> None:
    compiled = leaders_arrive.build(width=width, check=False).compile(assemble=False)
    x, y = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    for seed in SEEDS:
        found = broken_rules(
            lambda seed=seed: nvb.runtime.load(compiled, device="simulator", seed=seed).launch(1, x, y)
        )
        assert found == ([] if is_right else [MISSING])
        assert not is_right or np.array_equal(y, x[::-1])
