"""Bytes that are announced wrongly: what is said of a phase is what one round brings, and the number mends it."""

from __future__ import annotations

import re

import pytest

import nvbackend as nvb
from nvbackend import f32, i32

STAGES, WIDTH = 2, 64
FLOATS = nvb.Pointer(f32, align=16)


def refusal(announced, kernel):
    try:
        kernel(announced).build()
    except nvb.DiagnosticError as error:
        return error.diagnostics[0]
    return None


def in_one_group(announced):
    """A thread of those that read fills the stage that all have just read: two copies each."""

    @nvb.kernel("sm_90", threads=64)
    def kernel(k, x: FLOATS, y: FLOATS, out: FLOATS, steps: i32(minimum=1)):
        left, right = (k.shared(f32, STAGES * WIDTH, align=128, name=name) for name in ("left", "right"))
        full = k.mbarrier.array(STAGES, arrivals=1, name="full")
        k.mbarrier.ready()
        thread = k.thread_id()

        def fetch(step, slot):
            k.mbarrier.arrive(full + slot, expect_tx=announced)
            k.bulk.load(left + slot * WIDTH, x + step * WIDTH, 4 * WIDTH, full + slot)
            k.bulk.load(right + slot * WIDTH, y + step * WIDTH, 4 * WIDTH, full + slot)

        for number in range(STAGES):
            with k.if_((thread == 0) & (number < steps)):
                fetch(k.const(number, i32), k.const(number, i32))
        slot, phase = k.var(0), k.var(0)
        with k.range(steps) as step:
            k.mbarrier.wait(full + slot, phase)
            place = slot * WIDTH + thread
            out[step * WIDTH + thread] = left[place] + right[place]
            k.barrier.sync()
            ahead = step + (STAGES - 1)
            with k.if_((thread == 0) & (ahead >= STAGES) & (ahead < steps)):
                fetch(ahead, (slot + (STAGES - 1)) % STAGES)
            slot += 1
            with k.if_(slot == STAGES):
                slot.set(0)
                phase ^= 1

    return kernel


def by_a_producer(announced):
    """One copy a stage of an array whose elements have four bytes."""

    @nvb.kernel("sm_90", threads=160)
    def kernel(k, x: FLOATS, out: FLOATS, steps: i32(minimum=1)):
        box = k.shared(f32, STAGES * 2 * WIDTH, align=128, name="box")
        full = k.mbarrier.array(STAGES, arrivals=1, name="full")
        empty = k.mbarrier.array(STAGES, arrivals=2 * WIDTH, name="empty")
        k.mbarrier.ready()
        thread = k.thread_id()
        with k.one_thread(4):
            left, count = k.var(steps), k.var(0)
            with k.loop():
                k.break_if(left == 0)
                left -= 1
                slot = count % STAGES
                k.mbarrier.wait(empty + slot, (count // STAGES & 1) ^ 1)
                k.mbarrier.arrive(full + slot, expect_tx=announced)
                k.bulk.load(box + slot * 2 * WIDTH, x + left.value * 2 * WIDTH, 8 * WIDTH, full + slot)
                count += 1
        with k.if_(thread < 2 * WIDTH):
            left, count = k.var(steps), k.var(0)
            with k.loop():
                k.break_if(left == 0)
                left -= 1
                slot = count % STAGES
                k.mbarrier.wait(full + slot, count // STAGES & 1)
                out[left.value * 2 * WIDTH + thread] = box[slot * 2 * WIDTH + thread]
                k.mbarrier.arrive(empty + slot)
                count += 1

    return kernel


KERNELS = [in_one_group, by_a_producer]


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_right_number_is_refused_by_nothing(kernel):
    assert refusal(8 * WIDTH, kernel) is None


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("announced", [4 * WIDTH, 8 * WIDTH - 16, 8 * WIDTH + 16])
def test_the_number_of_the_fix_is_that_of_one_round(announced, kernel):
    found = refusal(announced, kernel)
    assert found.rule_id == "mbarrier.wrong-bytes"
    assert re.findall(r"announce (\d+) bytes", found.fix) == [str(8 * WIDTH)]
    assert "whose parts have" not in found.fix
