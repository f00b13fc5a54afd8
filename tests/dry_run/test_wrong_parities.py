"""Which of two waits is told where one has the wrong parity: the one that returns before what it is for is there."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import f32, i32

READERS, BYTES = 128, 512


def _ring(stages: int, full: int, empty: int, *, alone: bool) -> nvb.KernelDefinition:
    """A ring of bulk copies. `full` and `empty` are what each side's parity is changed by; `alone`: one gives back."""

    @nvb.kernel("sm_90", threads=READERS + 32)
    def ring(k, x: nvb.Pointer(f32, align=16), y: nvb.Pointer(f32), steps: i32(minimum=1)):
        box = k.shared(f32, stages * READERS, align=128, name="box")
        filled = k.mbarrier.array(stages, arrivals=1, name="filled")
        given_back = k.mbarrier.array(stages, arrivals=1 if alone else READERS, name="given_back")
        k.mbarrier.ready()
        thread = k.thread_id()
        with k.one_thread(4), k.range(steps) as step:
            stage = step % stages
            k.mbarrier.wait(given_back + stage, (step // stages & 1) ^ empty)
            k.mbarrier.arrive(filled + stage, expect_tx=BYTES)
            k.bulk.load(box + stage * READERS, x + step * READERS, BYTES, filled + stage)
        with k.if_(thread < READERS), k.range(steps) as step:
            stage = step % stages
            k.mbarrier.wait(filled + stage, (step // stages & 1) ^ full)
            y[step * READERS + thread] = box[stage * READERS + thread]
            if alone:
                k.barrier.sync(1, READERS)
            k.mbarrier.arrive(given_back + stage, when=(thread == 0) if alone else None)

    return ring


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_readers_that_begin_too_early_are_told(stages: int, alone: bool) -> None:
    _ring(stages, 0, 1, alone=alone).build()
    with pytest.raises(nvb.DiagnosticError) as caught:
        _ring(stages, 1, 1, alone=alone).build()
    (found,) = caught.value.diagnostics
    assert found.rule_id == "mbarrier.parity-counter"
    assert "warp 0 waits for parity 1 of filled" in found.message
    assert "it returns at once, before any phase is over, and ld.shared" in found.message
    assert found.fix.startswith("wait here for parity 0")
