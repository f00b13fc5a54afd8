"""Rings of which one side has ended while the other waits: how many steps were filled and used is said, and by whom."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import Pointer, f32, i32
from tests.dry_run.kernels.dealt_tiles import tiles_by_a_loop, tiles_of_three, tiles_of_two
from tests.dry_run.kernels.rings_of_ours import ring_of_roles
from tests.support.runtime import broken, rules

DEAL = "deal the tiles: of k.range(first, tiles, step) each takes k.range(first + warpgroup * step, tiles, "
SAID = {
    "tiles_of_two": (
        *(tiles_of_two, "every_tile", "; 8 steps were filled in line ", " by warp 0, which has ended; "),
        f"where these took 8 together, 4 by warps 4 to 7 and 4 by warps 8 to 11: {DEAL}2 * step); or",
    ),
    "tiles_of_three": (
        *(tiles_of_three, "every_tile", "; 8 steps were filled in line ", " by warp 0, which has ended; "),
        f"where these took 8 together, 4 by warp 1, 4 by warp 2 and 0 by warp 3: {DEAL}3 * step); or",
    ),
    "tiles_by_a_loop": (
        *(tiles_by_a_loop, "every_tile", "; 4 steps were filled in line ", " by warp 3, which has ended; "),
        "warp 3 has ended after 4 steps, and warp 1 begins another",
    ),
    "ring_of_roles": (
        *(ring_of_roles, "consumers_work_on_fewer_tiles", "; 8 steps were given back in line "),
        *(", 8 by warp 4 and 8 by warp 8, which have ended; ", "warps 4 and 8 have ended after 8 steps, and warp 0"),
    ),
}
"""By kernel its mistake, what the message says, and the fix."""
ROWS = 32


@pytest.mark.parametrize("name", SAID)
def test_both_sides_are_counted(name: str) -> None:
    kernel, mistake, steps, who, fix = SAID[name]
    (found,) = broken(lambda: kernel.build(mistake=mistake))
    assert found.rule_id == "mbarrier.deadlock"
    assert steps in found.message and who in found.message
    assert fix in (found.fix or "") and "(with " not in found.message


@pytest.mark.parametrize("turns", ["the other's", "its own"])
def test_a_consumer_that_takes_the_turns_of_the_other(turns: str) -> None:
    mistake = "turn_of_the_other" if turns == "the other's" else "tiles_of_the_other"
    (found,) = broken(lambda: tiles_of_two.build(mistake=mistake))
    first, second = ("warps 8 to 11", "warp 4") if turns == "the other's" else ("warps 4 to 7", "warp 8")
    assert found.fix is not None and found.fix.startswith(
        "give each consumer the turn of the number by which its tiles"
    )
    assert f"{first}, whose turn is before, have ended after 1 turn, and {second} begins another" in found.fix


def finished(mistake: str = "") -> nvb.KernelDefinition:
    """Two stages, and a producer that waits at its end until all have come back; with a mistake one does not."""

    @nvb.kernel("sm_90", threads=2 * ROWS)
    def stages(k, x: Pointer(f32, align=16), y: Pointer(f32), n: i32(minimum=1)):
        box = k.shared(f32, 2 * ROWS, align=128, name="box")
        full, empty = (k.mbarrier.array(2, arrivals=1, name=name) for name in ("full", "empty"))
        k.mbarrier.ready()
        with k.one_thread(1):
            with k.range(n) as i:
                k.mbarrier.wait(empty + i % 2, (i // 2 & 1) ^ 1)
                k.mbarrier.arrive(full + i % 2, expect_tx=4 * ROWS)
                k.bulk.load(box + i % 2 * ROWS, x + i * ROWS, 4 * ROWS, full + i % 2)
            with k.range(n, n + 2) as i:
                k.mbarrier.wait(empty + i % 2, (i // 2 & 1) ^ 1)
        with k.if_(k.warp_id() == 0), k.range(n) as i:
            k.mbarrier.wait(full + i % 2, (i // 2 & 1) ^ (1 if mistake == "parity" else 0))
            y[i * ROWS + k.lane_id()] = box[i % 2 * ROWS + k.lane_id()]
            k.warp.sync()
            gives = (k.lane_id() == 0) & (i + 1 < n) if mistake == "kept" else k.lane_id() == 0
            k.mbarrier.arrive(empty + i % 2, when=gives)

    return stages


def test_a_step_that_was_read_and_not_given_back() -> None:
    (found,) = broken(finished("kept").build)
    assert rules(finished().build) == []
    assert found.rule_id == "mbarrier.deadlock" and found.fix is not None
    assert found.fix.startswith("give back in line ") and found.fix.endswith(": 1 step was kept by warp 0")


def test_a_wrong_parity_is_told_as_one() -> None:
    assert rules(finished("parity").build) == ["mbarrier.parity-counter"]
