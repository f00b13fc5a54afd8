"""Two warps that fill a ring together: a count that knows of one, and a wait that one of them leaves out."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import Pointer, f32, i32
from tests.support.runtime import broken, rules

F32 = Pointer(f32, align=16)
STEPS = 7


def ring(count: int = 2, wrong: str = "") -> nvb.KernelDefinition:
    """Warps 2 and 3 bring 32 words each; warps 0 and 1 wait for both, and give each stage back."""

    @nvb.kernel("sm_90", threads=128)
    def halves(k, x: F32, y: Pointer(f32), n: i32(minimum=1)):
        box, thread = k.shared(f32, 3 * 64, align=128, name="box"), k.thread_id()
        full, empty = k.mbarrier.array(3, arrivals=count, name="full"), k.mbarrier.array(3, arrivals=2, name="empty")
        k.mbarrier.ready()
        for half in range(2):
            with k.one_thread(2 + half), k.range(n) as i:
                stage = i % 3
                if not (wrong == "no wait" and half):
                    k.mbarrier.wait(empty + stage, (i // 3 & 1) ^ 1)
                there = full + ((i + 1) % 3 if wrong == "next" and half else stage)
                k.mbarrier.arrive(there, expect_tx=128)
                k.bulk.load(box + (stage * 64 + half * 32), x + (i * 64 + half * 32), 128, full + stage)
        with k.if_(thread < 64), k.range(n) as i:
            stage = i % 3
            k.mbarrier.wait(full + stage, i // 3 & 1)
            y[i * 64 + thread] = box[stage * 64 + (63 - thread)]
            k.warp.sync()
            k.mbarrier.arrive(empty + stage, when=k.lane_id() == 0)

    return halves


def test_a_count_of_one_warp_where_two_fill() -> None:
    """The first ends the phase: the second is not too early, and has nothing to wait for."""
    (found,) = broken(ring(count=1).build)
    assert found.rule_id == "mbarrier.arrivals"
    assert "full[0] counts 1 arrival a phase, and 2 come in each round, of warps 2 and 3" in found.message
    assert found.fix == "initialise full[0] to 2, the arrivals of one round"


def test_bytes_that_are_announced_for_the_next_stage() -> None:
    (found,) = broken(ring(wrong="next").build)
    assert found.rule_id == "mbarrier.wrong-barrier"
    assert "warp 3 announces 128 bytes on full[" in found.message and "completes on full[" in found.message


def test_one_of_two_that_does_not_wait_for_the_readers() -> None:
    """The advice is for the producer that does not wait, by its warp."""
    (found,) = broken(ring(wrong="no wait").build)
    assert found.rule_id == "proxy.refill"
    assert (found.fix or "").startswith("let warp 3 wait for its stage of empty too before line ")


@pytest.mark.parametrize("seed", [0, 3])
def test_two_that_fill_as_they_should(seed: int) -> None:
    kernel = ring()
    assert rules(kernel.build) == []
    x, y = np.arange(STEPS * 64, dtype=np.float32).reshape(STEPS, 64), np.zeros((STEPS, 64), np.float32)
    compiled = kernel.compile(cache=nvb.Cache.disabled(), assemble=False)
    nvb.runtime.load(compiled, device="simulator", seed=seed).launch(1, x, y, STEPS)
    assert np.array_equal(y, x[:, ::-1])
