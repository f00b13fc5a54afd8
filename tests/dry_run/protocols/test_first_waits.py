"""Rings that nobody begins: the one wait is told that is to wait for the other parity, and the fix is right."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import f32, i32

STAGES, WIDTH = 2, 32
FLOATS = nvb.Pointer(f32, align=16)


def ring(k, x, out, steps, *, how, empty_flip, full_flip, helper=False):
    """A warp that loads, one that reads: of each barrier what the parity of its waits is changed by."""
    box = k.shared(f32, STAGES * WIDTH, align=128, name="box")
    full, empty = (k.mbarrier.array(STAGES, arrivals=1, name=name) for name in ("full", "empty"))
    k.mbarrier.ready()

    def polled(barrier, parity):
        with k.loop():
            k.break_if(k.mbarrier.test(barrier, parity=parity))

    wait = polled if helper else k.mbarrier.wait
    with k.if_(k.warp_id() == 0), k.range(steps) as i:
        stage, parity = i % STAGES, i // STAGES & 1
        wait(empty + stage, parity ^ empty_flip)  # empty
        if how == "bulk":
            with k.one_thread():
                k.mbarrier.arrive(full + stage, expect_tx=4 * WIDTH)
                k.bulk.load(box + stage * WIDTH, x + i * WIDTH, 4 * WIDTH, full + stage)
        else:
            box[stage * WIDTH + k.lane_id()] = x[i * WIDTH + k.lane_id()]
            k.warp.sync()
            k.mbarrier.arrive(full + stage, when=k.lane_id() == 0)
    with k.if_(k.warp_id() == 1), k.range(steps) as i:
        stage, parity = i % STAGES, i // STAGES & 1
        wait(full + stage, parity ^ full_flip)  # full
        out[i * WIDTH + k.lane_id()] = box[stage * WIDTH + k.lane_id()]
        k.warp.sync()
        k.mbarrier.arrive(empty + stage, when=k.lane_id() == 0)


def said(**options):
    @nvb.kernel("sm_90", threads=64)
    def kernel(k, x: FLOATS, out: FLOATS, steps: i32(minimum=1)):
        ring(k, x, out, steps, **options)

    try:
        kernel.build()
    except nvb.DiagnosticError as error:
        return error.diagnostics
    return ()


@pytest.mark.parametrize("how", ["bulk", "stores"])
@pytest.mark.parametrize("helper", [False, True])
def test_the_wait_of_those_that_begin_is_told(how, helper):
    (found,) = said(how=how, helper=helper, empty_flip=0, full_flip=0)
    lines = [found.location, *found.location.callers]
    assert found.rule_id == "mbarrier.deadlock"
    assert "parity 0 of empty[0]" in found.message
    assert any(place.source.endswith("# empty") for place in lines)
    assert "wait for parity 1 first" in found.fix
    assert said(how=how, helper=helper, empty_flip=1, full_flip=0) == ()


@pytest.mark.parametrize("how", ["bulk", "stores"])
def test_where_no_parity_mends_it_none_is_named(how):
    """Both waits pass the first round: what is read was never written."""
    for found in said(how=how, empty_flip=1, full_flip=1):
        assert "with that all threads come to the end" not in found.fix
