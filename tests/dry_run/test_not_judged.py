"""What no run of a kernel comes to is in its report: after the budget's end, or where data decides.

The mistake is a stage that is given back before it is read, which the dry run alone finds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import f32, i32

F32 = nvb.Pointer(f32, align=16)
FLAG = nvb.Pointer[i32]
STAGES, READERS, WORDS = 2, 128, 128
REFILL = ["proxy.refill"]
Before = Callable[..., None]


def ring(before: Before, *, early: bool, within: Callable[..., Any] | None = None) -> nvb.KernelDefinition:
    """A warp fills stages that four others read, and give back too `early`; `before` and `within` are around it."""

    @nvb.kernel("sm_90", threads=READERS + 32)
    def kernel(k: Any, x: F32, y: F32, steps: i32(minimum=1), flag: FLAG) -> None:  # type: ignore[valid-type]
        box = k.shared(f32, STAGES * WORDS, align=128, name="box")
        full = k.mbarrier.array(STAGES, arrivals=1, name="full")
        empty = k.mbarrier.array(STAGES, arrivals=READERS, name="empty")
        k.mbarrier.ready()
        before(k, flag, x)

        def work() -> None:
            thread = k.thread_id()
            with k.one_thread(READERS // 32), k.range(steps) as step:
                stage = step % STAGES
                k.mbarrier.wait(empty + stage, step // STAGES & 1 ^ 1)
                k.mbarrier.arrive(full + stage, expect_tx=4 * WORDS)
                k.bulk.load(box + stage * WORDS, x + step * WORDS, 4 * WORDS, full + stage)
            with k.if_(thread < READERS), k.range(steps) as step:
                stage = step % STAGES
                k.mbarrier.wait(full + stage, step // STAGES & 1)
                if early:
                    k.mbarrier.arrive(empty + stage)
                y[step * READERS + thread] = box[stage * WORDS + thread]
                if not early:
                    k.mbarrier.arrive(empty + stage)

        if within is None:
            work()
        else:
            with k.if_(within(k, flag)):
                work()

    return kernel


def nothing(k: Any, flag: Any, x: Any) -> None:
    """The ring comes first."""


def barriers(count: int) -> Before:
    """A loop of as many rounds comes before the ring."""

    def before(k: Any, flag: Any, x: Any) -> None:
        with k.range(count) as turn:
            k.assume(turn >= 0)
            k.barrier.sync()

    return before


def by_every_thread(order: str) -> Before:
    """Every thread waits for a flag of another kernel."""

    def before(k: Any, flag: Any, x: Any) -> None:
        with k.loop():
            k.break_if(flag.load(order=order, **({} if order == "volatile" else {"scope": "gpu"}))[0] == 1)

    return before


def by_one_thread(k: Any, flag: Any, x: Any) -> None:
    """One thread of the CTA does."""
    with k.if_(k.thread_id() == 0), k.loop():
        k.break_if(flag.load(order="acquire", scope="gpu")[0] == 1)
    k.barrier.sync()


def by_a_warp(k: Any, flag: Any, x: Any) -> None:
    """A warp of the CTA does."""
    with k.if_(k.warp_id() == 1), k.loop():
        k.break_if(flag.load(order="acquire", scope="gpu")[0] == 1)
    k.barrier.sync()


def found_and_unknown(kernel: nvb.KernelDefinition) -> tuple[list[str], tuple[str, ...]]:
    """The rules that refuse a kernel, and what was not judged of it."""
    try:
        return [], kernel.build(check=True).unknown
    except nvb.DiagnosticError as error:
        return [one.rule_id for one in error.diagnostics], ()


@pytest.mark.parametrize(
    "before",
    [nothing, barriers(5), by_one_thread, by_a_warp, *map(by_every_thread, ("acquire", "relaxed", "volatile"))],
)
@pytest.mark.parametrize("early", [False, True])
def test_what_comes_after_a_poll_is_judged(before: Before, early: bool) -> None:
    assert found_and_unknown(ring(before, early=early)) == (REFILL if early else [], ())


@pytest.mark.parametrize("early", [False, True])
def test_the_end_of_the_budget_is_said(early: bool) -> None:
    found, unknown = found_and_unknown(ring(barriers(10**5), early=early))
    assert not found
    [said] = unknown
    assert said.startswith("what runs after round ")
    assert said.endswith(" of turn: the dry run ends there")


def test_sizes_that_are_named_end_too() -> None:
    @nvb.kernel("sm_90", threads=64)
    def kernel(k: Any, x: nvb.Pointer[f32], rounds: i32(minimum=1)) -> None:  # type: ignore[valid-type]
        with k.range(rounds) as turn:
            k.assume(turn >= 0)
            k.barrier.sync()

    assert kernel.build().unknown == ()
    assert kernel.build(check=[{"rounds": 3}]).unknown == ()
    [said] = kernel.build(check=[{"rounds": 3}, {"rounds": 10**6}]).unknown
    assert said.endswith(" of turn: the dry run ends there")
    assert kernel.build(check=False).unknown == ()


def test_the_report_says_so() -> None:
    compiled = ring(barriers(10**5), early=True).compile(assemble=False, cache=nvb.Cache.disabled())
    lines = compiled.report().splitlines()
    assert lines[lines.index("  not judged") + 1].strip() == compiled.unknown[0]


def test_a_branch_that_no_run_takes_is_said() -> None:
    [said] = found_and_unknown(ring(nothing, early=True, within=lambda k, flag: k.block_id() < 0))[1]
    assert said.startswith("mbarrier.try_wait.parity of line ")
    assert said.endswith("lines more: no dry run comes there")


@pytest.mark.parametrize("within", [lambda k, flag: k.block_id() == 7, lambda k, flag: flag[0] == 3])
def test_a_branch_that_some_run_takes_is_not(within: Callable[..., Any]) -> None:
    assert found_and_unknown(ring(nothing, early=False, within=within)) == ([], ())
