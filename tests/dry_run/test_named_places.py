"""Parameters that name a thread or a CTA, whose range only the launch says."""

from collections.abc import Callable
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import f32, i32, u32
from tests.dry_run.test_sizes import tried

ROW, BYTES = 64, 256
WARPS: dict[str, Callable[[Any, Any], Any]] = {
    "a warp": lambda k, who: (k.warp_id() == who) & (k.lane_id() == 0),
    "a warp, the other way round": lambda k, who: (who == k.warp_id()) & (k.lane_id() == 0),
    "a thread": lambda k, who: k.thread_id() == who,
    "a wide number": lambda k, who: k.thread_id().to(nvb.i64) == who.to(nvb.i64),
    "not another one": lambda k, who: ~(k.thread_id() != who),
}


def _led(leads: Callable[[Any, Any], Any], announced: int, kind: Any) -> nvb.KernelDefinition:
    @nvb.kernel("sm_90", threads=ROW)
    def led(k, x: nvb.Pointer(f32, align=16), y: nvb.Pointer[f32], who: kind):  # type: ignore[valid-type]
        box = k.shared(f32, ROW, align=128, name="box")
        full = k.mbarrier.array(1, arrivals=1, name="full")
        k.mbarrier.ready()
        thread = k.thread_id()
        with k.if_(leads(k, who.to(i32))):
            k.mbarrier.arrive(full, expect_tx=announced)
            k.bulk.load(box, x, BYTES, full)
        k.mbarrier.wait(full, 0)
        y[thread] = box[ROW - 1 - thread]

    return led


@pytest.mark.parametrize("name", WARPS)
@pytest.mark.parametrize("kind", [i32, u32, i32(minimum=0), i32(minimum=0, maximum=1)], ids=str)
def test_somebody_leads(name: str, kind: Any) -> None:
    assert _led(WARPS[name], BYTES, kind).build().diagnostics == ()


@pytest.mark.parametrize("name", WARPS)
def test_what_the_leader_does_is_judged(name: str) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        _led(WARPS[name], BYTES // 2, i32).build()
    assert [one.rule_id for one in caught.value.diagnostics] == ["mbarrier.wrong-bytes"]


@pytest.mark.parametrize("leads", [lambda k, who: k.cluster.rank() == who, lambda k, who: k.block_id() % 2 == who])
def test_a_cta_leads_its_cluster(leads: Callable[[Any, Any], Any]) -> None:
    @nvb.kernel("sm_90", threads=ROW, cluster=2)
    def led(k, x: nvb.Pointer(f32, align=16), y: nvb.Pointer[f32], who: i32):  # type: ignore[valid-type]
        box = k.shared(f32, ROW, align=128, name="box")
        full = k.mbarrier.array(1, arrivals=1, name="full")
        k.mbarrier.ready()
        thread = k.thread_id()
        with k.if_(thread == 0):
            k.mbarrier.arrive(full, expect_tx=BYTES)
        with k.if_((thread == 0) & leads(k, who)):
            k.bulk.load(box, x, BYTES, full, multicast_mask=3)
        k.mbarrier.wait(full, 0)
        y[k.block_id() * ROW + thread] = box[ROW - 1 - thread]
        k.cluster.sync()

    assert led.build().diagnostics == ()


def test_a_count_that_a_loop_ends_at_is_no_place() -> None:
    """The first run makes several rounds, though the counter begins at the place of the CTA."""

    @nvb.kernel("sm_90", threads=ROW)
    def counted(k, x: nvb.Pointer(f32, align=16), y: nvb.Pointer[f32], n: i32):  # type: ignore[valid-type]
        box = k.shared(f32, ROW, align=128, name="box")
        full = k.mbarrier.array(1, arrivals=1, name="full")
        k.mbarrier.ready()
        thread, step, phase = k.thread_id(), k.var(k.block_id()), k.var(0)
        with k.loop():
            k.break_if(step == n)
            with k.if_(thread == 0):
                k.mbarrier.arrive(full, expect_tx=BYTES)
                k.bulk.load(box, x, BYTES, full)
            k.mbarrier.wait(full, phase)
            y[thread] = box[ROW - 1 - thread]
            k.barrier.sync()
            step += 1
            phase ^= 1

    assert tried(counted.build)[0]["n"] > 1


@pytest.mark.parametrize("kind", [i32, u32], ids=str)
@pytest.mark.parametrize("turned", [False, True])
def test_a_size_whose_last_place_is_asked_for_is_a_size(kind: Any, turned: bool) -> None:
    """`index < count` beside `index + 1 == count`: with no thread below it, nothing of the kernel would run."""

    @nvb.kernel("sm_80", threads=ROW)
    def shifted(k, x: nvb.Pointer[f32], y: nvb.Pointer[f32], count: kind):  # type: ignore[valid-type]
        tile = k.shared(f32, ROW + 1, name="tile")
        thread = k.thread_id()
        index = k.block_id() * ROW + thread
        size = count.to(i32)
        inside = (size > index) if turned else (index < size)
        with k.if_(inside):
            tile[thread] = x[index]
        with k.if_(index + 1 == size):
            tile[thread + 1] = 0.0
        with k.if_(inside):
            y[index] = tile[thread] + tile[thread + 1]

    with pytest.raises(nvb.DiagnosticError) as caught:
        shifted.build()
    assert [one.rule_id for one in caught.value.diagnostics] == ["shared.missing-barrier"]
