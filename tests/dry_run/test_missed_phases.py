"""Waits for a parity that another warp may let pass: nothing makes the next phase wait until they have looked.

The witness is the simulator, which compares the clocks of the waits with those of the arrivals of the next phase.
"""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f32, i32

STAGES, STEPS = 2, 5
F32 = nvb.Pointer(f32, align=16)


def _ring(given: int, readers: int, *, meets: bool = True, counts: bool = False) -> nvb.KernelDefinition:
    """Four warps fill a stage each of their quarter; `readers` warps read it, and the first of them gives it back.

    It gives back the stage `given` ahead, after the readers have met, if they do; with `counts` each gives it back.
    """

    @nvb.kernel("sm_90", threads=32 * (4 + readers))
    def ring(k, x: F32, y: F32, steps: i32(minimum=1)):
        box = k.shared(f32, STAGES * 128, align=128, name="box")
        filled = k.mbarrier.array(STAGES, arrivals=4, name="filled")
        empty = k.mbarrier.array(STAGES, arrivals=readers if counts else 1, name="empty")
        k.mbarrier.ready()
        lane, warp = k.lane_id(), k.warp_id()
        with k.if_(warp < 4), k.range(steps) as step:
            stage = step % STAGES
            k.mbarrier.wait(empty + stage, (step // STAGES & 1) ^ 1)
            with k.if_(lane == 0):
                k.mbarrier.arrive(filled + stage, expect_tx=128)
                k.bulk.load(box + stage * 128 + warp * 32, x + step * 128 + warp * 32, 128, filled + stage)
        with k.else_(), k.range(steps) as step:
            stage = step % STAGES
            k.mbarrier.wait(filled + stage, step // STAGES & 1)
            at = (warp - 4) * 32 + lane
            y[step * 32 * readers + at] = box[stage * 128 + 127 - at]
            if meets:
                k.barrier.sync(1, 32 * readers)
            k.warp.sync()
            k.mbarrier.arrive(empty + (stage + given) % STAGES, when=(lane == 0) & ((warp == 4) | counts))

    return ring


def _simulated(kernel: nvb.KernelDefinition, readers: int) -> list[str]:
    """The rules that the simulator finds broken."""
    x, y = np.zeros((STEPS, 128), np.float32), np.zeros((STEPS, 32 * readers), np.float32)
    loaded = nvb.runtime.load(kernel.build(check=False).compile(assemble=False), device="simulator")
    try:
        loaded.launch(1, x, y, STEPS)
    except nvb.DiagnosticError as error:
        return [one.rule_id for one in error.diagnostics]
    return []


@pytest.mark.parametrize("readers", [1, 2])
def test_a_stage_that_is_given_back_before_all_have_waited_for_it(readers: int) -> None:
    kernel = _ring(1, readers)
    assert _simulated(kernel, readers) == ["simulator.missed-phase"]
    with pytest.raises(nvb.DiagnosticError) as caught:
        kernel.build()
    (found,) = caught.value.diagnostics
    assert found.rule_id == "dry-run.overrun"
    assert "waits for parity 1 of empty[1], which lets it go on until phase 0 is over" in found.message
    assert "nothing makes warp 4, which comes in phase 0, wait until warp 0 has passed" in found.message


def test_a_reader_that_gives_nothing_back() -> None:
    """The other one does: the first may miss a phase, and read nothing of it."""
    kernel = _ring(0, 2, meets=False)
    assert _simulated(kernel, 2)
    with pytest.raises(nvb.DiagnosticError):
        kernel.build()


@pytest.mark.parametrize(("readers", "counts"), [(1, False), (1, True), (2, False), (2, True)])
def test_rings_that_wait_for_all(readers: int, counts: bool) -> None:
    kernel = _ring(0, readers, counts=counts)
    assert _simulated(kernel, readers) == []
    kernel.build()


def _drained(*, meets: bool) -> nvb.KernelDefinition:
    """All warps wait for each phase of one mbarrier, and read nothing that it brings."""

    @nvb.kernel("sm_90", threads=64)
    def drained(k, x: F32, y: F32, steps: i32(minimum=1)):
        box = k.shared(f32, 32, align=128, name="box")
        filled = k.mbarrier.array(1, arrivals=1, name="filled")
        k.mbarrier.ready()
        with k.range(steps) as step:
            with k.one_thread():
                k.mbarrier.arrive(filled, expect_tx=128)
                k.bulk.load(box, x + step * 32, 128, filled)
            k.mbarrier.wait(filled, step & 1)
            with k.if_(k.warp_id() == 0):
                y[step * 32 + k.lane_id()] = box[k.lane_id()]
                k.warp.sync()
            if meets:
                k.barrier.sync()

    return drained


def test_who_only_waits_is_waited_for_too() -> None:
    """The second warp reads nothing, and without a barrier it may look two phases later."""
    _drained(meets=True).build()
    with pytest.raises(nvb.DiagnosticError) as caught:
        _drained(meets=False).build()
    (found,) = caught.value.diagnostics
    assert found.rule_id == "dry-run.overrun"
    assert "nothing makes warp 0 wait for" in found.message
