"""Tensor memory that one warp gives back and others read: what is missing between the two, however much of it is."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

import nvbackend as nvb
from nvbackend import u32
from nvbackend.diagnostics import gather
from tests.support.runtime import rules

BARRIER, FENCE = "tcgen05.missing-barrier", "tcgen05.missing-fence-before"


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ("", [BARRIER]),
        ("f", [BARRIER]),
        ("b", [FENCE]),
        ("bf", [BARRIER]),
        ("fb", []),
        ("bfb", []),
        ("fm", []),
        ("m", [FENCE]),
        ("fa", []),
    ],
)
def test_following_the_advice_never_hides_what_is_still_missing(after: str, expected: list[str]) -> None:
    """A fence alone orders nothing: f fence, b barrier, m arrival on an mbarrier, a atomic in global memory."""
    parameters = [nvb.Parameter("flag", nvb.Pointer(u32))]
    k = nvb.KernelBuilder("kernel", "sm_100a", threads=64, parameters=parameters)
    cell, done, flag = k.shared(u32, 1), k.mbarrier.array(1, 32), k.arguments[0]
    with k.if_(k.warp_id() == 0):
        k.tcgen05.alloc(cell, 64)
    k.mbarrier.ready()
    with k.if_(k.warp_id() == 1):
        k.tcgen05.wait_ld(k.tcgen05.ld(cell[0], "32x32b", 64))
        for step in after:
            if step == "f":
                k.tcgen05.fence_before_thread_sync()
            if step == "b":
                k.barrier.sync(1, 64)
            if step == "m":
                k.mbarrier.arrive(done)
            if step == "a":
                flag.atomic("add", 1)
    with k.if_(k.warp_id() == 0):
        for step in after:
            if step == "b":
                k.barrier.sync(1, 64)
            if step == "m":
                k.mbarrier.wait(done, 0)
        k.tcgen05.dealloc(cell[0], 64)
    assert [one.rule_id for one in gather(k.finish)] == expected


@pytest.mark.parametrize(("always", "expected"), [(True, []), (False, ["tcgen05.missing-dealloc"])])
def test_the_warp_that_gives_back_for_another_does_so_on_every_path(always: bool, expected: list[str]) -> None:
    k = nvb.KernelBuilder("kernel", "sm_100a", threads=64, parameters=[nvb.Parameter("n", nvb.Scalar(u32))])
    cell, n = k.shared(u32, 1), k.arguments[0]
    with k.if_(k.warp_id() == 0):
        k.tcgen05.alloc(cell, 64)
    k.mbarrier.ready()
    with k.if_(k.warp_id() == 1):
        if always:
            k.tcgen05.dealloc(cell[0], 64)
        else:
            with k.if_(n > 1):
                k.tcgen05.dealloc(cell[0], 64)
    assert [one.rule_id for one in gather(k.finish)] == expected


@pytest.mark.parametrize("comes", ["all", "those that read", "whoever frees", "nobody"])
def test_a_barrier_before_the_columns_are_given_back(comes: str) -> None:
    """Where a part of the warps comes to one of them all, that is the one mistake."""

    @nvb.kernel("sm_100a", threads=128)
    def kernel(k):
        cell = k.shared(u32, 1)
        with k.if_(k.warp_id() == 0):
            k.tcgen05.alloc(cell, 64)
        k.tcgen05.fence_before_thread_sync()
        k.barrier.sync()
        k.tcgen05.fence_after_thread_sync()
        k.tcgen05.wait_ld(k.tcgen05.ld(cell[0], "32x32b", 64))
        k.tcgen05.fence_before_thread_sync()
        if comes != "nobody":
            part = k.warp_id() > 0 if comes == "those that read" else k.warp_id() == 0
            with nullcontext() if comes == "all" else k.if_(part):
                k.barrier.sync()
        with k.if_(k.warp_id() == 0):
            k.tcgen05.dealloc(cell[0], 64)

    wrong = {"all": set(), "nobody": {"tcgen05.missing-barrier"}}
    assert {*rules(kernel.build)} == wrong.get(comes, {"barrier.divergent"})
