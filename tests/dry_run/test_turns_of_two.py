"""Two warps that take stages of a ring in turns: an index that knows of one, and a turn that one gives to itself."""

from __future__ import annotations

import re

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import Pointer, f32, i32
from tests.support.runtime import broken, rules

F32 = Pointer(f32, align=16)
STAGES, TILES, STEPS = 3, 4, 2


def in_turns(wrong: str = "") -> nvb.KernelDefinition:
    """Warp 0 fills; warps 1 and 2 take tiles in turns, each when the other has taken all steps of its own."""

    @nvb.kernel("sm_90", threads=96)
    def pingpong(k, x: F32, y: Pointer(f32), tiles: i32(minimum=2), steps: i32(minimum=1)):
        box = k.shared(f32, STAGES * 32, align=128, name="box")
        full, empty = (k.mbarrier.array(STAGES, arrivals=1, name=name) for name in ("full", "empty"))
        order = k.mbarrier.array(2, arrivals=1, name="order")
        k.mbarrier.ready()
        lane = k.lane_id()
        with k.one_thread(0), k.range(tiles * steps) as i:
            stage = i % STAGES
            k.mbarrier.wait(empty + stage, (i // STAGES & 1) ^ 1)
            k.mbarrier.arrive(full + stage, expect_tx=128)
            k.bulk.load(box + stage * 32, x + i * 32, 128, full + stage)
        with k.if_(k.warp_id() > 0):
            mine = k.warp_id() - 1
            with k.range(mine, tiles, 2) as tile:
                turn, total = tile // 2, k.var(0.0)
                k.mbarrier.wait(order + mine, k.select(mine == 0, (turn & 1) ^ 1, turn & 1))
                with k.range(steps) as step:
                    i = (turn if wrong == "index" else tile) * steps + step
                    stage = i % STAGES
                    k.mbarrier.wait(full + stage, i // STAGES & 1)
                    total += box[stage * 32 + lane]
                    k.warp.sync()
                    k.mbarrier.arrive(empty + stage, when=lane == 0)
                k.mbarrier.arrive(order + (mine if wrong == "turn" else mine ^ 1), when=lane == 0)
                y[tile * 32 + lane] = total

    return pingpong


def said(wrong: str) -> nvb.Diagnostic:
    (found,) = broken(in_turns(wrong).build)
    return found


def test_an_index_that_does_not_count_the_rounds_of_both() -> None:
    """The other warp has used the phase: its parity is right for no one."""
    found = said("index")
    assert found.rule_id == "mbarrier.parity-counter"
    assert re.match(r"correct the index of the barrier in line \d+, where each phase is for one warp", found.fix or "")
    assert "warp 1 has used phase 0, for which warp 2 waits now" in (found.fix or "")


def test_a_turn_that_is_given_to_oneself() -> None:
    """The other one waits for ever, and nothing is wrong with the parities of the ring."""
    found = said("turn")
    assert found.rule_id == "mbarrier.deadlock"
    assert "warp 2 waits forever for parity 0 of order[1]" in found.message
    fix = (
        r"let warp 1 arrive on order\[1\] in line \d+, for which warp 2 waits, and not on order\[0\], for which warp 1"
    )
    assert re.match(fix, found.fix or "")


@pytest.mark.parametrize("seed", [0, 3])
def test_turns_as_they_should_be(seed: int) -> None:
    kernel = in_turns()
    assert rules(kernel.build) == []
    x = np.arange(TILES * STEPS * 32, dtype=np.float32).reshape(TILES, STEPS, 32)
    y = np.zeros((TILES, 32), np.float32)
    compiled = kernel.compile(cache=nvb.Cache.disabled(), assemble=False)
    nvb.runtime.load(compiled, device="simulator", seed=seed).launch(1, x, y, TILES, STEPS)
    assert np.array_equal(y, x.sum(1))
