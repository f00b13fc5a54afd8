"""A lane that releases or acquires for its whole warp: what of it holds for the other lanes.

By PTX ISA 8.8 a release tells what its thread did and what is ordered before it, and an acquire is that of its thread.
Lanes of a warp are ordered where they meet (9.7.13.2). Each kernel is built with the meetings and without one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f16, f32, i32, u32
from nvbackend.simulator.checks.rules import ORDER

FLOATS = nvb.Pointer(f32, align=16)
FLAG = nvb.Pointer[u32]
SEEDS = range(4)
MISSING = "simulator.missing-warp-sync"


def run(kernel: nvb.KernelDefinition, *, grid: int = 1, element: Any = np.float32, **constants: Any) -> list[str]:
    """The rule that each run breaks, "" for none."""
    compiled = kernel.build(**constants, check=False).compile(cache=nvb.Cache.disabled(), assemble=False)
    found = []
    for seed in SEEDS:
        arrays = [np.arange(512).astype(element), np.zeros(512, np.float32), np.zeros(4, np.uint32)]
        rounds = [4] * ("n" in [one.name for one in compiled.signature.parameters])
        try:
            nvb.runtime.load(compiled, device="simulator", seed=seed).launch(grid, *arrays, *rounds)
            found.append("")
        except nvb.DiagnosticError as error:
            found.append(error.diagnostics[0].rule_id)
    return found


def is_found(found: list[str]) -> bool:
    """Whether each run tells a mistake of order, and the first one, in which lanes run together, that of the lanes."""
    return found[0] == MISSING and set(found) <= {rule.id for rule in ORDER}


def released(k, flag):
    flag.store(1, order="release", scope="gpu")


def fenced(k, flag):
    k.fence.thread("acq_rel", "gpu")
    flag.store(1, order="relaxed", scope="gpu")


def added(k, flag):
    k.atomic.reduce(flag, "add", 1, order="release")


@nvb.kernel("sm_80", threads=32)
def handed_over(k, x: FLOATS, y: FLOATS, flag: FLAG, *, before, after, release):
    lane = k.lane_id()
    with k.if_(k.block_id() == 0):
        x[lane] = x[lane] * 2.0
        if before:
            k.warp.sync()
        with k.if_(lane == 0):
            release(k, flag)
    with k.else_():
        with k.if_(lane == 0), k.loop():
            k.break_if(flag.load(order="acquire", scope="gpu")[0] == 1)
        if after:
            k.warp.sync()
        y[lane] = x[31 - lane]


@pytest.mark.parametrize("release", [released, fenced, added])
def test_lane_0_releases_for_its_warp_after_a_meeting(release: Callable[..., None]) -> None:
    assert run(handed_over, grid=2, before=True, after=True, release=release) == [""] * len(SEEDS)
    assert is_found(run(handed_over, grid=2, before=False, after=True, release=release))
    assert all(run(handed_over, grid=2, before=True, after=False, release=release))


@nvb.kernel("sm_80", threads=32)
def locked(k, x: FLOATS, y: FLOATS, lock: FLAG, *, taken, given):
    lane = k.lane_id()
    with k.if_(lane == 0):
        with k.loop():
            k.break_if(k.atomic.cas(lock, 0, 1) == 0)
        k.fence.thread("acq_rel", "gpu")
    if taken:
        k.warp.sync()
    y[lane] = y[lane] + x[k.block_id() * 32 + lane]
    if given:
        k.warp.sync()
    with k.if_(lane == 0):
        k.fence.thread("acq_rel", "gpu")
        lock.store(0, order="relaxed", scope="gpu")


def test_lane_0_takes_a_lock_for_its_warp_between_meetings() -> None:
    assert run(locked, grid=4, taken=True, given=True) == [""] * len(SEEDS)
    assert is_found(run(locked, grid=4, taken=True, given=False))
    assert all(run(locked, grid=4, taken=False, given=True))


@nvb.kernel("sm_90", threads=64)
def box(k, x: FLOATS, y: FLOATS, _flag: FLAG, n: i32(minimum=1), *, full_meets, empty_meets):
    """Warp 0 fills a row of shared memory that warp 1 reads, in rounds; one lane of each arrives."""
    row, lane = k.shared(f32, 32, name="row"), k.lane_id()
    full, empty = (k.mbarrier.array(1, arrivals=1, name=name) for name in ("full", "empty"))
    k.mbarrier.ready()
    with k.range(n) as i:
        with k.if_(k.warp_id() == 0):
            k.mbarrier.wait(empty, (i & 1) ^ 1)
            row[lane] = x[i * 32 + lane]
            if full_meets:
                k.warp.sync()
            k.mbarrier.arrive(full, when=lane == 0)
        with k.else_():
            k.mbarrier.wait(full, i & 1)
            y[i * 32 + lane] = row[31 - lane]
            if empty_meets:
                k.warp.sync()
            k.mbarrier.arrive(empty, when=lane == 0)


def test_lane_0_arrives_for_its_warp_after_a_meeting() -> None:
    assert run(box, full_meets=True, empty_meets=True) == [""] * len(SEEDS)
    assert is_found(run(box, full_meets=False, empty_meets=True))
    assert is_found(run(box, full_meets=True, empty_meets=False))


@nvb.kernel("sm_90", threads=64)
def matrices(k, x: nvb.Pointer(f16, align=16), y: FLOATS, _flag: FLAG, n: i32(minimum=1)):
    """A warp reads matrices together: one lane gives them back for all."""
    tile, lane = k.shared(f16, 256, align=128, name="tile"), k.lane_id()
    full, empty = (k.mbarrier.array(1, arrivals=1, name=name) for name in ("full", "empty"))
    k.mbarrier.ready()
    with k.if_(k.warp_id() == 1), k.one_thread(1), k.range(n) as i:
        k.mbarrier.wait(empty, (i & 1) ^ 1)
        k.mbarrier.arrive(full, expect_tx=512)
        k.bulk.load(tile, x, 512, full)
    with k.else_(), k.range(n) as i:
        k.mbarrier.wait(full, i & 1)
        registers = k.mma.ldmatrix(tile + lane * 8, 4)
        k.mbarrier.arrive(empty, when=lane == 0)
        y[i * 32 + lane] = registers[0].bitcast(f32)


def test_what_a_warp_reads_together_one_lane_gives_back() -> None:
    assert run(matrices, element=np.float16) == [""] * len(SEEDS)


@nvb.kernel("sm_90", threads=32)
def brought(k, x: FLOATS, y: FLOATS, _flag: FLAG, n: i32(minimum=1), *, meets):
    """The first `n` lanes wait."""
    row, lane = k.shared(f32, 32, align=128, name="row"), k.lane_id()
    full = k.mbarrier.array(1, arrivals=1, name="full")
    k.mbarrier.ready()
    with k.if_(lane == 0):
        k.mbarrier.arrive(full, expect_tx=128)
        k.bulk.load(row, x, 128, full)
    with k.if_(lane < n):
        k.mbarrier.wait(full, 0)
    if meets:
        k.warp.sync()
    y[lane] = row[lane]


def test_a_lane_waits_for_its_warp_before_a_meeting() -> None:
    assert run(brought, meets=True) == [""] * len(SEEDS)
    assert set(run(brought, meets=False)) <= {MISSING, "proxy.read-before-wait", "proxy.refill-in-flight"}


@nvb.kernel("sm_90", threads=32)
def sent(k, x: FLOATS, y: FLOATS, _flag: FLAG, *, meets):
    """Lane 0 has a row copied away and waits for that, then all write it again."""
    row, lane = k.shared(f32, 32, align=128, name="row"), k.lane_id()
    row[lane] = x[lane]
    k.fence.proxy_async()
    k.warp.sync()
    with k.if_(lane == 0):
        k.bulk.store(y, row, 128)
        k.tma.commit_group()
        k.tma.wait_group(0)
    if meets:
        k.warp.sync()
    row[lane] = 0.0


def test_a_lane_waits_for_its_copy_before_a_meeting() -> None:
    assert run(sent, meets=True) == [""] * len(SEEDS)
    assert set(run(sent, meets=False)) <= {MISSING, "proxy.write-in-flight"}


@nvb.kernel("sm_80", threads=32)
def in_global_memory(k, x: FLOATS, y: FLOATS, _flag: FLAG, *, meets, reads):
    lane = k.lane_id()
    y[lane] = x[lane]
    if meets:
        k.warp.sync()
    y[128 + lane] = y[reads(lane)]


def test_lanes_exchange_in_global_memory_across_a_meeting() -> None:
    def mirrored(lane):
        return 31 - lane

    assert run(in_global_memory, meets=True, reads=mirrored) == [""] * len(SEEDS)
    assert run(in_global_memory, meets=False, reads=lambda lane: lane) == [""] * len(SEEDS)
    assert is_found(run(in_global_memory, meets=False, reads=mirrored))
