"""CTAs that fill the memory of one another: which CTA's mbarrier is meant, and a fix that mends the kernel."""

from __future__ import annotations

import re

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import Pointer, f32, i32
from tests.support.runtime import broken, rules

F32 = Pointer(f32, align=16)
ROUNDS = 4
STEPS = 5


def blocks_that_go_round(wrong: str = "") -> nvb.KernelDefinition:
    """Each of 4 CTAs passes blocks on to its right, which gives credit; what is `wrong` is left out, or turned."""

    @nvb.kernel("sm_90", threads=64, cluster=4)
    def ring(k, x: F32, y: F32, n: i32(minimum=1)):
        box, thread, rank = k.shared(f32, 128, align=128, name="box"), k.thread_id(), k.cluster.rank()
        full, credit, sent = (k.mbarrier.array(2, arrivals=1, name=name) for name in ("full", "credit", "sent"))
        k.mbarrier.ready()
        left, right = (rank + 3) % 4, (rank + 1) % 4
        box[thread] = x[rank * 64 + thread]
        k.fence.proxy_async()
        k.cluster.sync()
        total = k.var(0.0)
        with k.range(n) as i:
            now, then = i % 2, (i + 1) % 2
            with k.if_(i > 0):
                k.mbarrier.wait(full + now, (i - 1) // 2 & 1)
            with k.if_(thread == 0), k.if_(i + 1 < n):
                k.mbarrier.arrive(full + then, expect_tx=256)
                if wrong != "no wait for credit":
                    with k.if_(i > 0):
                        k.mbarrier.wait(credit + then, (i - 1) // 2 & 1)
                to = left if wrong == "the other way" else right
                k.bulk.store(box + then * 64, box + now * 64, 256, rank=to, barrier=full + then)
            total += box[now * 64 + thread]
            k.barrier.sync()
            with k.if_(thread == 0), k.if_(i + 1 < n):
                k.mbarrier.wait(full + then, i // 2 & 1)
                k.mbarrier.arrive(sent + now, rank=left)
                if wrong != "credit before it is sent":
                    k.mbarrier.wait(sent + now, i // 2 & 1)
                k.mbarrier.arrive(credit + now, rank=left)
        y[rank * 64 + thread] = total
        k.cluster.sync()

    return ring


@pytest.mark.parametrize(
    ("wrong", "fix"),
    [
        ("no wait for credit", "let warp 0 of CTA 3 wait for phase 0 of credit[0], parity 0, before line "),
        (
            "credit before it is sent",
            "let CTA 1 arrive on an mbarrier of CTA 0 (k.mbarrier.arrive with rank=) after its wait for phase 0",
        ),
    ],
)
def test_whose_mbarrier_is_missing(wrong: str, fix: str) -> None:
    (found,) = broken(blocks_that_go_round(wrong).build)
    assert found.rule_id == "proxy.refill-in-flight"
    assert "cp.async.bulk of warp 0 of CTA 3 fills box of CTA 0 while cp.async.bulk of warp 0 of CTA 0" in found.message
    assert found.message.endswith(
        "warp 0 of CTA 3 has not waited for phase 0 of full[1] of CTA 1, which the copy completes"
    )
    assert (found.fix or "").startswith(fix)


def test_copies_that_go_the_other_way() -> None:
    """Each CTA fills the one on its left, and is given credit by the one on its right."""
    (found,) = broken(blocks_that_go_round("the other way").build)
    assert found.rule_id == "proxy.refill"
    assert "of warp 0 of CTA 3 fills box of CTA 2 while ld.shared of warp 0 of CTA 2 in round 0" in found.message
    fix = r"let line \d+ copy to CTA 0, which arrives on credit\[0\], for which warp 0 of CTA 3 waits; or let CTA 2, "
    assert re.match(fix, found.fix or "")


def test_blocks_that_go_round_as_they_should() -> None:
    kernel = blocks_that_go_round()
    assert rules(kernel.build) == []
    x, y = np.arange(256, dtype=np.float32).reshape(4, 64), np.zeros((4, 64), np.float32)
    launched(kernel, 4, x, y, ROUNDS)
    assert np.array_equal(y, np.repeat(x.sum(0, keepdims=True), 4, 0))


def pairs_that_meet(*, own_first: bool) -> nvb.KernelDefinition:
    """Two CTAs that arrive at an mbarrier of each, and wait for their own."""

    @nvb.kernel("sm_90a", threads=32, cluster=2)
    def meeting(k, rounds: i32(minimum=1)):
        met, peer = k.mbarrier.array(1, arrivals=2, name="met"), k.cluster.peer_rank()
        k.mbarrier.ready()
        with k.range(rounds) as turn:
            with k.if_(k.lane_id() == 0):
                if own_first:
                    k.mbarrier.arrive(met)
                k.mbarrier.arrive(met, rank=peer)
                if not own_first:
                    k.mbarrier.arrive(met)
            k.mbarrier.wait(met, turn & 1)
        k.cluster.sync()

    return meeting


def test_a_phase_of_a_peer_is_not_waited_for_there() -> None:
    """No warp can wait at an mbarrier of another CTA."""
    assert rules(pairs_that_meet(own_first=True).build) == []
    (found,) = broken(pairs_that_meet(own_first=False).build)
    assert found.rule_id == "dry-run.unwaited-phase"
    assert "warp 0 arrives on met of CTA 1, and phase 0 may not be over" in found.message
    assert (found.fix or "").startswith("let CTA 1 wait for phase 0 there, and then tell warp 0 of CTA 0, by a copy")


def rows_of_two(own: bool = True, to: str = "first") -> nvb.KernelDefinition:
    """CTA 0 brings rows for both of two CTAs, and each brings its own. CTA 1 may fill with no wait for its readers.

    Both give back `to` the first, or each to itself.
    """

    @nvb.kernel("sm_90", threads=96, cluster=2)
    def rows(k, x: F32, z: F32, y: F32, n: i32(minimum=1)):
        mine, both = (k.shared(f32, 128, align=128, name=name) for name in ("mine", "both"))
        thread, rank = k.thread_id(), k.cluster.rank()
        full, empty = k.mbarrier.array(2, arrivals=1, name="full"), k.mbarrier.array(2, arrivals=2, name="empty")
        free = k.mbarrier.array(2, arrivals=1, name="free")
        k.mbarrier.ready()
        k.cluster.sync()
        with k.one_thread(2), k.range(n) as i:
            stage, parity = i % 2, (i // 2 & 1) ^ 1
            with k.if_(rank == 0):
                k.mbarrier.wait(empty + stage, parity)
            if own:
                k.mbarrier.wait(free + stage, parity)
            k.mbarrier.arrive(full + stage, expect_tx=512)
            k.bulk.load(mine + stage * 64, x + (rank * n + i) * 64, 256, full + stage)
            with k.if_(rank == 0):
                k.bulk.load(both + stage * 64, z + i * 64, 256, full + stage, multicast_mask=3)
        with k.if_(thread < 64):
            total = k.var(0.0)
            with k.range(n) as i:
                stage = i % 2
                k.mbarrier.wait(full + stage, i // 2 & 1)
                total += mine[stage * 64 + thread] + both[stage * 64 + thread]
                k.barrier.sync(1, 64)
                with k.if_(thread == 0):
                    k.mbarrier.arrive(empty + stage, rank=k.const(0, i32) if to == "first" else rank)
                    k.mbarrier.arrive(free + stage)
            y[rank * 64 + thread] = total
        k.cluster.sync()

    return rows


def test_a_cta_that_fills_again_before_its_readers_are_done() -> None:
    """Its bytes of two rounds come in one phase: what is missing is the wait for its readers, and no byte."""
    (found,) = broken(rows_of_two(own=False).build)
    assert found.rule_id == "dry-run.overrun"
    assert "of warp 2 of CTA 1 brings bytes to phase 1 of full[0] of CTA 1, which has those of round 2" in found.message
    assert (found.fix or "").startswith("let warp 2 of CTA 1 wait for free[0], on which warp 0 arrives after reading")


def test_arrivals_on_the_mbarrier_of_a_cta_that_does_not_wait() -> None:
    """What lacks is the rank, and no arrival."""
    (found,) = broken(rows_of_two(to="itself").build)
    assert found.rule_id == "mbarrier.arrivals"
    assert "empty[0] of CTA 0 counts 2 arrivals a phase, and phase 0 gets only 1" in found.message
    fix = (
        r"let line \d+ arrive on empty\[0\] of CTA 0, with rank=0: some of its arrivals are on that of CTA 1, for which"
    )
    assert re.match(fix, found.fix or "")


def test_rows_of_two_as_they_should_be() -> None:
    kernel = rows_of_two()
    assert rules(kernel.build) == []
    x, z = np.arange(2 * STEPS * 64, dtype=np.float32).reshape(2, STEPS, 64), np.ones((STEPS, 64), np.float32)
    y = np.zeros((2, 64), np.float32)
    launched(kernel, 2, x, z, y, STEPS)
    assert np.array_equal(y, (x + z).sum(1))


def launched(kernel: nvb.KernelDefinition, ctas: int, *arguments: np.ndarray | int) -> None:
    """Run it in the simulator."""
    compiled = kernel.compile(cache=nvb.Cache.disabled(), assemble=False)
    nvb.runtime.load(compiled, device="simulator").launch(ctas, *arguments)
