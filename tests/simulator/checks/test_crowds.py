"""Named barriers that two groups of threads use with nothing between, in a run whose order happens to be harmless."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simulator.calls.bodies import rules

LOWER_HALF = "setp.lt.u32 %p2, %r0, 64;"
IN_TURN = """{lower} @!%p2 bra UPPER;
bar.sync 1, 64;
{tell}
bra END;
UPPER: {hear}
bar.sync {number}, 64;
END:"""


def found(body: str, seed: int = 0) -> list[str]:
    return [rule for rule, _ in rules(body, np.zeros(128, np.uint32), threads=128, seed=seed)]


def in_turn(tell: str = "", hear: str = "", number: int = 1) -> str:
    return IN_TURN.format(lower=LOWER_HALF, tell=tell, hear=hear, number=number)


@pytest.mark.parametrize("seed", range(4))
def test_two_groups_at_one_barrier(seed: int) -> None:
    assert found(in_turn(), seed) == ["barrier.crowd"]


@pytest.mark.parametrize(
    "body",
    [
        in_turn(number=2),
        in_turn("bar.arrive 3, 128;", "bar.sync 3, 128;"),
        in_turn("bar.sync 0;", "bar.sync 0;"),
    ],
    ids=["a number each", "one tells the other", "all meet"],
)
def test_groups_with_an_order_between_them(body: str) -> None:
    for seed in range(4):
        assert found(body, seed) == []


def test_one_group_comes_again_and_again() -> None:
    body = f"{LOWER_HALF} mov.u32 %r9, 0; @!%p2 bra END; L: bar.sync 1, 64; add.u32 %r9, %r9, 1;"
    assert found(f"{body} setp.lt.u32 %p3, %r9, 3; @%p3 bra L; END:") == []


@pytest.mark.parametrize(("write", "read"), [("release", "acquire"), ("relaxed", "relaxed"), ("volatile", "volatile")])
def test_a_flag_in_memory_may_order_the_groups(write: str, read: str) -> None:
    """A relaxed flag orders no data, and the barrier all the same: who has seen it comes later."""
    scope = "" if write == "volatile" else ".gpu"
    tell = f"mov.u32 %r7, 1; @%p0 st.{write}{scope}.global.u32 [%rd0+256], %r7;"
    look = f"ld.{read}{scope}.global.u32 %r8, [%rd0+256]; setp.eq.u32 %p1, %r8, 1;"
    assert found(in_turn(tell, f"W: {look} @!%p1 bra W;")) == []


def test_who_arrives_again_waits_for_the_answer() -> None:
    """A warp that only arrives does not know when the barrier has opened."""
    body = f"""{LOWER_HALF} setp.lt.u32 %p3, %r0, 32; @!%p2 bra END; @!%p3 bra READ;
bar.arrive 1, 64; {{answer}} bar.arrive 1, 64; bra END;
READ: bar.sync 1, 64; {{answers}} bar.sync 1, 64;
END:"""
    assert found(body.format(answer="bar.sync 2, 64;", answers="bar.arrive 2, 64;")) == []
    assert "barrier.crowd" in found(body.format(answer="", answers=""))
