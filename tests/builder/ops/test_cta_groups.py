"""Groups that do not come whole, or whose barrier is not theirs alone: refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import KernelBuilder, s32
from nvbackend.builder.ops.groups import GROUP, of_whole_calls
from nvbackend.builder.ops.groups import THREADS as PARTED
from nvbackend.diagnostics import Location
from nvbackend.isel.protocols.convergence.rules import WARP_DIVERGENT

THREADS = 384


def _sum(k: KernelBuilder, x: Any, **group: Any) -> None:
    x[k.thread_id()] = k.cta.reduce("add", x[k.thread_id()], **group)


def _one_lane(k: KernelBuilder, x: Any) -> None:
    with k.one_thread():
        _sum(k, x, threads=32, barrier=1)


def _every_second(k: KernelBuilder, x: Any) -> None:
    with k.if_(k.warp_id() % 2 == 0):
        _sum(k, x, threads=192, barrier=1)


def _not_in_line(k: KernelBuilder, x: Any) -> None:
    warp = k.warp_id()
    with k.if_((warp < 2) | (warp == 3) | (warp == 4)):
        _sum(k, x, threads=64, barrier=k.select(warp < 2, 1, 2))


def _second_is_short(k: KernelBuilder, x: Any) -> None:
    warp = k.warp_id()
    with k.if_(warp < 3):
        _sum(k, x, threads=64, barrier=k.select(warp < 2, 1, 2))


def _unknown(k: KernelBuilder, x: Any) -> None:
    with k.if_(k.warp_id() < x[0]):
        _sum(k, x, threads=128, barrier=1)


def _lanes_apart(k: KernelBuilder, x: Any) -> None:
    with k.if_(k.warpgroup_id() == 1), k.if_(x[k.thread_id()] > 0):
        _sum(k, x, threads=128, barrier=1)


def _zero(k: KernelBuilder, x: Any) -> None:
    with k.if_(k.warpgroup_id() == 1):
        _sum(k, x, threads=128, barrier=0)
    k.barrier.sync()


def _used_elsewhere(k: KernelBuilder, x: Any) -> None:
    with k.if_(k.warpgroup_id() == 1):
        _sum(k, x, threads=128, barrier=1)
    with k.else_():
        k.barrier.sync(1, 256)


def _used_elsewhere_among_others(k: KernelBuilder, x: Any) -> None:
    with k.if_(k.warpgroup_id() == 1):
        _sum(k, x, threads=128, barrier=1)
    with k.else_():
        x[0] = x[1]
        k.warp.sync()
        k.barrier.sync(2, 256)
        k.barrier.sync(k.thread_id() // 1024 + 3, 256)
        k.barrier.sync(1, 256)


def _two_groups(k: KernelBuilder, x: Any) -> None:
    for group in (1, 2):
        with k.if_(k.warpgroup_id() == group):
            _sum(k, x, threads=128, barrier=1)


def _two_warps(k: KernelBuilder, x: Any) -> None:
    for warp in (3, 5):
        with k.if_(k.warp_id() == warp):
            _sum(k, x, threads=32, barrier=1)


WRONG: dict[str, tuple[Callable[[KernelBuilder, Any], None], str, str]] = {
    "too many": (lambda k, x: _sum(k, x, threads=128, barrier=1), "cta.group", "384 threads come"),
    "no barrier": (lambda k, x: _sum(k, x, threads=128), "cta.group", "barrier= is missing"),
    "no threads": (lambda k, x: _sum(k, x, barrier=1), "cta.group", "threads= is missing"),
    "half a warp": (lambda k, x: _sum(k, x, threads=48, barrier=1), "barrier.threads", "48 threads"),
    "more than there are": (lambda k, x: _sum(k, x, threads=512, barrier=1), "barrier.waits", "512 threads"),
    "no such barrier": (lambda k, x: _sum(k, x, threads=384, barrier=16), "barrier.id", "not 16"),
    "a number from memory": (lambda k, x: _sum(k, x, threads=128, barrier=x[0]), "cta.group", "number of the barrier"),
    "one lane": (_one_lane, "cta.group", "one lane of each warp"),
    "warps apart": (_every_second, "cta.group", "warps 0 to 10 come"),
    "groups not in line": (_not_in_line, "cta.group", "groups begin at warps 0 and 3"),
    "one whole, one not": (_second_is_short, "cta.group", "32 threads come"),
    "unknown warps": (_unknown, "cta.group", "which of 384 threads come is not known"),
    "lanes apart": (_lanes_apart, "cta.group", "only some come"),
    "the CTA's barrier": (_zero, "cta.group", "barrier 0 is used for 384 threads elsewhere"),
    "another count": (_used_elsewhere, "cta.group", "barrier 1 is used for 256 threads elsewhere"),
    "another count among others": (_used_elsewhere_among_others, "cta.group", "barrier 1 is used for 256 threads"),
    "another warp": (_two_warps, "cta.group", "barrier 1 is for warp 3 at"),
    "another group": (_two_groups, "cta.group", "barrier 1 is for warps 4 to 7"),
}


def _finish(k: KernelBuilder, body: Callable[[KernelBuilder, Any], None]) -> None:
    body(k, k.arguments[0])
    k.finish(check=False)


@pytest.mark.parametrize("name", WRONG)
def test_a_group_comes_whole_to_a_barrier_of_its_own(name: str) -> None:
    body, rule, text = WRONG[name]
    k = KernelBuilder("group", "sm_90a", threads=THREADS, parameters=[nvb.Parameter("x", nvb.Pointer(s32))])
    with pytest.raises(nvb.DiagnosticError) as caught:
        _finish(k, body)
    assert [each.rule_id for each in caught.value.diagnostics] == [rule]
    assert text in caught.value.diagnostics[0].message


def test_a_group_in_a_loop_that_data_ends() -> None:
    k = KernelBuilder("group", "sm_90a", threads=THREADS, parameters=[nvb.Parameter("x", nvb.Pointer(s32))])
    x = k.arguments[0]
    with k.if_(k.warpgroup_id() > 0):
        left = k.var(x[0])
        with k.loop():
            k.break_if(left <= 0)
            left -= 1
            _sum(k, x, threads=128, barrier=k.warpgroup_id())
    assert "bar.sync" in k.finish().compile(assemble=False).ptx


def test_what_has_no_place_or_another_cause_is_said_as_it_is() -> None:
    """Only what parts the threads at the line of a call of all threads is said in the words of that call."""
    k = KernelBuilder("k", "sm_90a", threads=64)
    here, there = Location("a.py", 1, "f"), Location("a.py", 2, "f")
    k.core.cta_wide[here.file, here.line] = partial(GROUP.diagnose, call="sum", group="g", problem="p", instead="i")
    parting = replace(PARTED.diagnose(at=here, call="c", count=1, threads=2), rule=WARP_DIVERGENT)
    elsewhere, nowhere = replace(parting, location=there), replace(parting, location=None)
    other = PARTED.diagnose(at=here, call="sum", count=1, threads=2)
    said = of_whole_calls(k.core, [elsewhere, parting, nowhere, other, parting])
    assert [one.rule_id for one in said] == [elsewhere.rule_id, "cta.group", elsewhere.rule_id, "cta.threads"]
    assert said[0] is elsewhere
    assert said[2:] == [nowhere, other]
