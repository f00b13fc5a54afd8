"""Stages that a ring gives back: refused where a multiply of them is in flight, by executing the rounds one by one."""

from __future__ import annotations

import itertools

import pytest

import nvbackend as nvb
from nvbackend import f16, f32, i32
from nvbackend.builder.tiles.ring_rules import RING_IN_FLIGHT

A = nvb.TensorMap(f16, box=(64, 64))


def kernel_of(held: int, groups: int, left: int, last: int | None, loop: bool) -> nvb.KernelDefinition:
    """Each round multiplies a stage in so many groups and leaves `left` in flight; `last` is left before release."""

    @nvb.kernel("sm_90a", threads=256)
    def multiplied(k, a: A, steps: i32):
        mma = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32))
        ring = k.pipeline(4, 1, a=mma.smem_a(64))
        k.mbarrier.ready()
        count = steps if loop else 1
        with k.producer(40), k.range(steps), ring.fill() as stage:
            k.tma.load(stage.a, a, (0, 0), stage.full)
        with k.consumers(232):
            acc = mma.accumulator()
            with k.range(count) if loop else k.if_(steps > 0), ring.drain(held) as stage:
                for _ in range(groups):
                    k.wgmma.fence()
                    for part in range(4 // groups):
                        at = (0, 16 * part)
                        k.wgmma.mma_async(
                            acc, stage.a, stage.a, nvb.wgmma.mma_async("m64n64k16", f16, f16, f32), a_at=at, b_at=at
                        )
                    k.wgmma.commit_group()
                k.wgmma.wait_group(left)
            if last is not None:
                k.wgmma.wait_group(last)
                with k.range(steps):
                    ring.release()
            k.wgmma.wait_group(0)

    return multiplied


def is_read(held: int, groups: int, left: int, last: int | None) -> bool:
    """Whether some stage comes back while it is read, in rounds executed one after the other."""
    flight: list[int] = []
    for stage in range(8):
        flight = (flight + [stage] * groups)[-left:] if left else []
        if stage - held in flight:
            return True
    if last is not None:
        flight = flight[-last:] if last else []
    return last is not None and 7 in flight


CASES = [
    (held, groups, left, last)
    for held, groups, left in itertools.product((0, 1), (1, 2), (0, 1, 2, 3))
    for last in ((None,) if held == 0 else (None, 0, 1))
]


def is_refused(kernel: nvb.KernelDefinition) -> bool:
    try:
        kernel.build()
    except nvb.DiagnosticError as error:
        return any(found.rule is RING_IN_FLIGHT for found in error.diagnostics)
    return False


@pytest.mark.parametrize("held", [0, 1])
def test_a_stage_in_flight_is_not_given_back(held):
    cases = [case for case in CASES if case[0] == held]
    refused = {case: is_refused(kernel_of(*case, loop=True)) for case in cases}
    assert refused == {case: is_read(*case) for case in cases}
    assert set(refused.values()) == {True, False}


def test_a_ring_that_is_drained_once_may_be_read_on():
    assert not is_refused(kernel_of(0, 1, 1, None, loop=False))
