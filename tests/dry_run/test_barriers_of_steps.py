"""Loops whose steps have a barrier each: there are as many steps as barriers, where no parity takes the loop on."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import f32, i32
from tests.support.runtime import broken

F32 = nvb.Pointer(f32, align=16)
COUNT = i32(minimum=1)


def mirrored(*, laps: bool) -> nvb.KernelDefinition:
    """Chunks of a row, one per step; after `laps` the parity is another one, as if the barriers came round."""

    @nvb.kernel("sm_90", threads=128)
    def chunks_at_once(k, x: F32, y: F32, steps: COUNT):
        thread, chunks = k.thread_id(), k.shared(f32, 4 * 128, name="chunks", align=128)
        full = k.mbarrier.array(4, arrivals=1, name="full")
        k.mbarrier.ready()
        with k.if_(thread == 0), k.range(steps) as step:
            k.mbarrier.arrive(full + step, expect_tx=512)
            k.bulk.load(chunks + step * 128, x + step * 128, 512, full + step)
        with k.range(steps) as step:
            k.mbarrier.wait(full + step, step // 4 & 1 if laps else 0)
            y[step * 128 + thread] = chunks[step * 128 + 127 - thread]

    return chunks_at_once


@pytest.mark.parametrize("laps", [False, True])
def test_the_barriers_promise_the_steps(laps: bool) -> None:
    assert bool(broken(mirrored(laps=laps).build)) == laps
