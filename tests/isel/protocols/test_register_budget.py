"""setmaxnreg against ptxas, which compares every dec with the largest inc of the program (C7406), and in all orders."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest

from nvbackend import i32
from nvbackend.builder.kernel.kernel import KernelBuilder, kernel_text
from nvbackend.codegen.llvm import compile_ir
from nvbackend.diagnostics import gather
from nvbackend.signature import Parameter, Scalar
from tests.support.ptxas import assemble

pytestmark = pytest.mark.sampled(2)

COUNTS = (24, 40, 64)
THREADS = 384
Program = Callable[[KernelBuilder, int, int, int], None]


def arms(k, dec, inc, other):
    with k.if_(k.warpgroup_id() == 0):
        k.setmaxnreg.dec(dec)
    with k.else_():
        with k.if_(k.warpgroup_id() == 1):
            k.setmaxnreg.inc(inc)
        with k.else_():
            k.setmaxnreg.inc(other)


def in_turn(k, dec, inc, other):
    k.setmaxnreg.dec(dec)
    k.setmaxnreg.inc(inc)
    k.setmaxnreg.dec(other)


def in_a_loop(k, dec, inc, other):
    with k.if_(k.warpgroup_id() == 0), k.range(k.arguments[0]):
        k.setmaxnreg.dec(dec)
        k.setmaxnreg.inc(inc)
    with k.else_():
        k.setmaxnreg.dec(other)


def after_an_exit(k, dec, inc, other):
    with k.if_(k.warpgroup_id() == 0):
        k.setmaxnreg.dec(dec)
        k.return_()
    k.setmaxnreg.dec(other)
    k.setmaxnreg.inc(inc)


def only_down(k, dec, inc, other):
    with k.if_(k.warpgroup_id() == 0):
        k.setmaxnreg.dec(dec)
    with k.else_():
        k.setmaxnreg.dec(max(inc, other))


@pytest.mark.parametrize("program", [arms, in_turn, in_a_loop, after_an_exit, only_down])
def test_a_count_that_stays_above_every_inc_is_what_ptxas_refuses(program: Program) -> None:
    """What nvbackend takes, ptxas takes, and what it refuses by this rule, ptxas refuses for this reason."""
    verdicts = []
    for counts in itertools.product(COUNTS, repeat=3):
        k = KernelBuilder("kernel", "sm_90a", threads=THREADS, min_ctas=1, parameters=[Parameter("n", Scalar(i32))])
        program(k, *counts)
        refused = {one.rule_id for one in gather(k.finish)}
        fine, said = assemble(compile_ir(kernel_text(k.module, k), k.target).ptx, "sm_90a")
        verdicts.append(refused)
        assert refused or fine, (counts, said)
        if "setmaxnreg.largest" in refused:
            assert "C7406" in said, (counts, said)
    assert verdicts.count(set()) > 2
    assert ({"setmaxnreg.largest"} in verdicts) == (program in (arms, in_a_loop, after_an_exit))


LIMITS = [
    (128, 1, None),
    (128, None, 100),
    (128, 1, 97),
    (128, None, 255),
    (384, 1, None),
    (128, 3, None),
    (256, 2, 30),
]


@pytest.mark.parametrize(("threads", "min_ctas", "most"), LIMITS)
def test_what_the_launch_gives_is_what_ptxas_says(threads: int, min_ctas: int | None, most: int | None) -> None:
    for count in (24, 32, 96, 104, 168, 176, 248, 256):
        k = KernelBuilder("kernel", "sm_90a", threads=threads, min_ctas=min_ctas, max_registers=most)
        k.setmaxnreg.dec(count)
        refused = {one.rule_id for one in gather(k.finish)}
        fine, said = assemble(compile_ir(kernel_text(k.module, k), k.target).ptx, "sm_90a")
        assert refused == (set() if fine else {"setmaxnreg.order"}), (count, said)


def test_the_most_that_a_warp_may_have_is_what_the_message_says() -> None:
    """Two ways lead to the dec, with 40 and with 80 registers: 88 is more than either leaves."""
    k = KernelBuilder("kernel", "sm_90a", threads=256, min_ctas=1)
    with k.if_(k.warpgroup_id() == 0):
        k.setmaxnreg.dec(40)
    with k.else_():
        k.setmaxnreg.dec(80)
    k.setmaxnreg.dec(88)
    (refused,) = gather(k.finish)
    assert refused.rule_id == "setmaxnreg.order"
    assert " 80" in refused.message
    assert " 40" not in refused.message


def ends(share: int, steps: tuple[tuple[int, ...], ...]) -> bool:
    """Whether some order of the steps leads to the end, with the registers that the warpgroups are launched with."""
    waiting, seen = [(0,) * len(steps)], set[tuple[int, ...]]()
    while waiting:
        place = waiting.pop()
        if place in seen:
            continue
        seen.add(place)
        if all(at == len(own) for at, own in zip(place, steps, strict=True)):
            return True
        for group, (at, own) in enumerate(zip(place, steps, strict=True)):
            if at < len(own):
                after = (*place[:group], at + 1, *place[group + 1 :])
                held = [each[one - 1] if one else share for one, each in zip(after, steps, strict=True)]
                if sum(held) <= share * len(steps):
                    waiting.append(after)
    return False


@pytest.mark.parametrize("seed", range(4))
def test_registers_that_no_order_of_the_warpgroups_finds_are_refused(seed: int) -> None:
    """One step a warpgroup: exactly where there is no such order. Of several, never where there is one."""
    chance, told, share = random.Random(seed), 0, 168
    for most in (1, 1, 1, 2, 3) * 12:
        steps = tuple(
            tuple(chance.choice((24, 40, 96, 160, 168, 208, 232, 240)) for _ in range(chance.randint(1, most)))
            for _ in range(THREADS // 128)
        )
        k = KernelBuilder("kernel", "sm_90a", threads=THREADS, min_ctas=1)
        for group, own in enumerate(steps):
            with k.if_(k.warpgroup_id() == group):
                for before, count in itertools.pairwise((share, *own)):
                    (k.setmaxnreg.inc if count > before else k.setmaxnreg.dec)(count)
        refused = {one.rule_id for one in gather(k.finish)} - {"setmaxnreg.largest"}
        if "setmaxnreg.pool" in refused:
            assert not ends(share, steps), steps
            told += 1
        elif most == 1 and not refused:
            assert ends(share, steps), steps
    assert told > 5


@pytest.mark.parametrize("apart", [True, False])
def test_what_another_way_asks_for_comes_after_nothing(apart: bool) -> None:
    """On the way that gives too much, no warpgroup comes to the count of the other way, in either order of the text."""
    k = KernelBuilder("kernel", "sm_90a", threads=THREADS, min_ctas=1, parameters=[Parameter("n", Scalar(i32))])
    with k.if_(k.arguments[0] > 3):
        for group in range(2):
            with k.if_(k.warpgroup_id() == group):
                k.setmaxnreg.inc(240)
                if not apart:
                    k.setmaxnreg.dec(24)
    with k.else_():
        for group in range(2):
            with k.if_(k.warpgroup_id() == group):
                k.setmaxnreg.dec(24)
    found = gather(k.finish)
    assert {one.rule_id for one in found} == ({"setmaxnreg.pool"} if apart else set())
    for one in found:  # beside one of 240 and one that keeps its share
        assert one.values["most"] == max(count for count in range(24, 257, 8) if count + 240 + 168 <= 3 * 168)
        assert "one warpgroup" in one.message


def test_of_several_counts_the_nearest_is_advised() -> None:
    for last, other, limit in (("inc", 40, "from 56"), ("dec", 80, "up to 64")):
        k = KernelBuilder("kernel", "sm_90a", threads=THREADS, min_ctas=1)
        with k.if_(k.warpgroup_id() == 0):
            k.setmaxnreg.dec(64)
        with k.else_():
            k.setmaxnreg.dec(56)
        getattr(k.setmaxnreg, last)(other)
        (found,) = gather(k.finish)
        assert (found.rule_id, (found.fix or "").rpartition("a count ")[2]) == ("setmaxnreg.order", limit)
