"""Loops without an end: a certain one is simulator.livelock, others end at the limit; loops that end draw neither."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f32, u32
from nvbackend.simulator import Simulator
from tests.simulator.calls.bodies import ptx, rules, run

SEEDS = pytest.mark.parametrize("seed", [0, 1])
READY = "@%p0 st.shared.u32 [%r1], 0; @%p0 st.shared.u32 [%r1+4], 0; bar.sync 0;"
SPIN = "W{0}: ld.volatile.shared.u32 %r9, [%r1]; setp.ne.u32 %p9, %r9, {1}; {2} @%p9 bra W{0};"


@nvb.kernel("sm_90a", threads=64)
def forgets_to_update(k: nvb.KernelBuilder, x: nvb.Pointer[f32], out: nvb.Pointer[f32]) -> None:
    value = x[k.thread_id()]
    old = k.var(out[0])
    with k.loop():
        k.break_if(old >= value)
        seen = k.atomic.cas(out, old, value)  # here
        k.break_if(seen.bitcast(u32) == old.bitcast(u32))


@pytest.mark.parametrize(("seed", "checks"), [(0, True), (1, False)])
def test_a_loop_that_forgets_to_update_is_named(seed: int, checks: bool) -> None:
    """The threads meet and part in each round, and each round writes the value that was there."""
    x, out = np.arange(1, 65, dtype=np.float32), np.zeros(1, np.float32)
    loaded = nvb.runtime.load(forgets_to_update.compile(), device="simulator", seed=seed, checks=checks)
    with pytest.raises(nvb.DiagnosticError, match=r"they read 4 bytes at out\+0, global address") as caught:
        loaded.launch(1, x, out)
    (found,) = caught.value.diagnostics
    assert found.rule_id == "simulator.livelock"
    assert found.location is not None
    assert found.location.file == __file__
    with open(__file__, encoding="utf-8") as text:
        assert "# here" in text.readlines()[found.location.line - 1]


LIVELOCKS = {
    "nobody sets the flag": READY + SPIN.format(0, 1, ""),
    "the same value is written": READY + SPIN.format(0, 1, "st.volatile.shared.u32 [%r1+4], 0;"),
    "it sleeps": READY + SPIN.format(0, 1, "nanosleep.u32 100;"),
    "three states": "mov.u32 %r9, 0; A: add.u32 %r9, %r9, 1; rem.u32 %r9, %r9, 3; setp.ne.u32 %p9, %r9, 5; @%p9 bra A;",
    "the warp votes": READY + SPIN.format(0, 1, "vote.sync.any.pred %p9, %p9, -1; bar.warp.sync -1;"),
    "a lock that is never given back": READY + "A: atom.shared.cas.b32 %r9, [%r1], 0, 1;"
    "setp.ne.u32 %p9, %r9, 0; @%p9 bra A;",
    "two flags": READY
    + "setp.lt.u32 %p1, %r0, 32; @%p1 bra LOW;"
    + SPIN.format(0, 1, "")
    + "st.volatile.shared.u32 [%r1], 2; bra END; LOW:"
    + SPIN.format(1, 2, "")
    + "st.volatile.shared.u32 [%r1], 1; END:",
    "a sum that nothing reads grows": READY + SPIN.format(0, 1, "red.shared.add.u32 [%r1+4], 1;"),
    "what an atomic gives back is not used": READY
    + "A: atom.shared.add.u32 %r9, [%r1], 3; setp.eq.u32 %p9, %r0, %r0; @%p9 bra A;",
    "it counts its turns": "mov.u32 %r8, 0;" + READY + SPIN.format(0, 1, "add.u32 %r8, %r8, 1;"),
    "it stores how many turns it has made": "mov.u32 %r8, 0;"
    + READY
    + SPIN.format(0, 1, "add.u32 %r8, %r8, 1; @%p0 st.shared.u32 [%r1+4], %r8;"),
    "a carry is counted": "mov.u32 %r8, 0; mov.u32 %r7, 0;"
    + READY
    + SPIN.format(0, 1, "add.cc.u32 %r8, %r8, 1; addc.u32 %r7, %r7, 0;"),
    "two values are stored in turn": READY
    + "mov.u32 %r9, 0; A: xor.b32 %r9, %r9, 1; st.volatile.shared.u32 [%r1], %r9; setp.lt.u32 %p9, %r9, 2; @%p9 bra A;",
    "it sums what it reads": "mov.u32 %r8, 0;"
    + READY
    + SPIN.format(0, 1, "ld.shared.u32 %r7, [%r1+4]; add.u32 %r8, %r8, %r7; @%p0 st.shared.u32 [%r1+64], %r8;"),
    "asks for a phase that is over": "@%p0 mbarrier.init.shared.b64 [%r2], 1; bar.sync 0;"
    "A: mbarrier.try_wait.parity.shared.b64 %p9, [%r2], 1; @%p9 bra A;",
}


@pytest.mark.sampled(2)
@SEEDS
@pytest.mark.parametrize("name", LIVELOCKS)
def test_a_livelock_is_found(name: str, seed: int) -> None:
    found = [rule for rule, _ in rules(LIVELOCKS[name], threads=64, seed=seed, limit=10**6, checks=seed == 1)]
    assert found == ["simulator.livelock"]


def test_any_number_of_states_is_recognised() -> None:
    """Without a seed, by which threads come back together to what they were like."""
    body = "mov.u32 %r9, 0; A: add.u32 %r9, %r9, 1; rem.u32 %r9, %r9, 13; setp.ne.u32 %p9, %r9, 2000; @%p9 bra A;"
    assert [rule for rule, _ in rules(body, limit=10**7)] == ["simulator.livelock"]


def test_threads_that_wait_meanwhile_are_named() -> None:
    body = READY + "setp.lt.u32 %p1, %r0, 32; @%p1 bra LOW;" + SPIN.format(0, 1, "") + "LOW: bar.sync 1;"
    with pytest.raises(nvb.DiagnosticError, match=r"never ends: .*\(thread 32 of CTA 0 and 31 more ") as caught:
        run(body, threads=64)
    waits = "note: thread 0 of CTA 0 and 31 more: waits at barrier 1 of its CTA, where 32 of 64 threads have arrived"
    assert waits in str(caught.value)


def test_who_could_write_what_is_read_is_named() -> None:
    body = READY + SPIN.format(0, 1, "") + "@%p0 st.volatile.shared.u32 [%r1], 1;"
    with pytest.raises(nvb.DiagnosticError, match=r"they read 4 bytes at buf \(shared") as caught:
        run(body)
    assert "note: this writes such memory, and no thread has come to it: PTX line 11: @%p0 st.volatile" in str(
        caught.value
    )


CLOCKED = "mov.u32 %r8, %clock; A: mov.u32 %r9, %clock; sub.u32 %r9, %r9, %r8; setp.lt.u32 %p9, %r9, 9000;"
ENDS = {
    "another warp sets the flag later": READY
    + "setp.lt.u32 %p1, %r0, 32; @%p1 bra LOW;"
    + SPIN.format(0, 1, "")
    + "bra END; LOW: mov.u32 %r10, 0; L: add.u32 %r10, %r10, 1; setp.lt.u32 %p2, %r10, 3000; @%p2 bra L;"
    + "st.volatile.shared.u32 [%r1], 1; END:",
    "the others set it after the loop, which parts the threads": READY
    + "setp.lt.u32 %p1, %r0, 32; and.b32 %r11, %r0, 1; setp.eq.u32 %p3, %r11, 0; @!%p1 bra HIGH;"
    + "W: @%p3 bra EVEN; ld.volatile.shared.u32 %r9, [%r1]; bra JOIN; EVEN: ld.volatile.shared.u32 %r9, [%r1+4];"
    + "JOIN: setp.eq.u32 %p2, %r9, 0; @%p2 bra W; bra END;"
    + "HIGH: st.volatile.shared.u32 [%r1], 1; st.volatile.shared.u32 [%r1+4], 1; END:",
    "two warps take turns": READY
    + "shr.u32 %r12, %r0, 5; mov.u32 %r10, %r12;"
    + "T: W: ld.volatile.shared.u32 %r9, [%r1]; setp.ne.u32 %p9, %r9, %r10; @%p9 bra W; bar.warp.sync -1;"
    + "add.u32 %r11, %r10, 1; and.b32 %r13, %r0, 31; setp.eq.u32 %p4, %r13, 0;"
    + "@%p4 st.volatile.shared.u32 [%r1], %r11; add.u32 %r10, %r10, 2; setp.lt.u32 %p5, %r10, 60; @%p5 bra T;",
    "a lock goes from thread to thread": READY
    + "and.b32 %r11, %r0, 15; setp.ne.u32 %p1, %r11, 0; @%p1 bra END;"
    + "A: atom.shared.cas.b32 %r9, [%r1], 0, 1; setp.ne.u32 %p9, %r9, 0; @%p9 bra A;"
    + "membar.cta; atom.shared.exch.b32 %r9, [%r1], 0; END:",
    "the clock ends it": CLOCKED + "@%p9 bra A;",
    "an arrival in each round": "@%p0 mbarrier.init.shared.b64 [%r2], 65536; bar.sync 0; A:"
    "mbarrier.arrive.shared.b64 _, [%r2]; mbarrier.test_wait.parity.shared.b64 %p9, [%r2], 0; @!%p9 bra A;",
    "a copy in flight": "@%p0 mbarrier.init.shared.b64 [%r2], 1; bar.sync 0; @!%p0 bra A;"
    "mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 256;"
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd0], 256, [%r2];"
    "A: mbarrier.test_wait.parity.shared.b64 %p9, [%r2], 0; nanosleep.u32 20; @!%p9 bra A;",
    "try_wait": "@%p0 mbarrier.init.shared.b64 [%r2], 1; bar.sync 0; @!%p0 bra A;"
    "mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 256;"
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd0], 256, [%r2];"
    "A: mbarrier.try_wait.parity.shared.b64 %p9, [%r2], 0, 20; @!%p9 bra A;",
    "what is stored late ends it": "mov.u32 %r8, 0;"
    + READY
    + "A: add.u32 %r8, %r8, 1; shr.u32 %r10, %r8, 11; st.volatile.shared.u32 [%r1+4], %r10;"
    + "ld.volatile.shared.u32 %r9, [%r1+4]; setp.eq.u32 %p9, %r9, 0; @%p9 bra A;",
    "a sum in memory ends it": READY
    + "A: red.shared.add.u32 [%r1+4], 1; ld.volatile.shared.u32 %r9, [%r1+4]; setp.lt.u32 %p9, %r9, 90000; @%p9 bra A;",
    "a carry ends it": "mov.u32 %r8, 0xfffff000; mov.u32 %r7, 0; A: add.cc.u32 %r8, %r8, 1; addc.u32 %r7, %r7, 0;"
    "setp.eq.u32 %p9, %r7, 0; @%p9 bra A;",
    "an address comes to the flag": READY
    + "@%p0 st.shared.u32 [%r1+4096], 0; bar.sync 0; mov.u32 %r8, %r1; A: @%p0 st.volatile.shared.u32 [%r8], 1;"
    + "add.u32 %r8, %r8, 4; ld.volatile.shared.u32 %r9, [%r1+4096]; setp.ne.u32 %p9, %r9, 1; @%p9 bra A;",
    "many rounds": "mov.u32 %r9, 0; A: add.u32 %r9, %r9, 1; setp.lt.u32 %p9, %r9, 20000; @%p9 bra A;",
    "the low half counts": "mov.u32 %r9, 0;"
    "A: add.u32 %r9, %r9, 1; and.b32 %r10, %r9, 1023; setp.ne.u32 %p9, %r10, 0; @%p9 bra A;",
}


@pytest.mark.sampled(2)
@SEEDS
@pytest.mark.parametrize("name", ENDS)
def test_a_loop_that_ends_is_left_alone(name: str, seed: int) -> None:
    options = {"checks": "lock" not in name and "flag" not in name and "turns" not in name}
    assert rules(ENDS[name], np.zeros(64, np.uint32), threads=64, seed=seed, limit=10**6, **options) == []


@SEEDS
def test_a_flag_of_another_cta_is_waited_for(seed: int) -> None:
    body = """
mov.u32 %r5, %ctaid.x; setp.ne.u32 %p1, %r5, 0; @%p1 bra SET;
A: ld.acquire.gpu.global.u32 %r9, [%rd0]; setp.ne.u32 %p9, %r9, 7; nanosleep.u32 50; @%p9 bra A; bra END;
SET: setp.ne.u32 %p2, %r5, 7; @%p2 bra END; @%p0 st.release.gpu.global.u32 [%rd0], 7;
END:
"""
    flag = np.zeros(1, np.uint32)
    module = Simulator().load(ptx(body, [flag]))
    module.launch("k", grid=(8, 1, 1), block=(32, 1, 1), args=[flag], seed=seed, limit=10**6)
    assert flag.tolist() == [7]


@SEEDS
def test_what_changes_for_ever_ends_at_the_limit(seed: int) -> None:
    """What the condition reads is counted on: another value may end the loop, so nothing is certain of it."""
    body = READY + "A: atom.shared.add.u32 %r9, [%r1], 2; setp.ne.u32 %p9, %r9, 7; @%p9 bra A;"
    with pytest.raises(nvb.DiagnosticError, match="k has not ended after 5000 instructions of the CTAs") as caught:
        run(body, seed=seed, limit=5000, checks=False)
    (found,) = caught.value.diagnostics
    assert found.rule_id == "simulator.limit"
    assert "thread 0 of CTA 0 and 31 more: runs (PTX line 11: atom.shared.add.u32 %r9, [%r1], 2)" in found.message


@SEEDS
def test_a_long_loop_ends_soon_after_the_limit(seed: int) -> None:
    """In the round that exceeds it."""
    long = "add.u32 %r7, %r7, 1; " * 100
    body = f"A: {long} @%p0 atom.global.add.u32 %r9, [%rd0], 2; setp.ne.u32 %p9, %r9, 7; @%p9 bra A;"
    count = np.zeros(1, np.uint32)
    module = Simulator().load(ptx(body, [count]))
    with pytest.raises(nvb.DiagnosticError, match="k has not ended after 2000 instructions of the CTAs"):
        module.launch("k", grid=(1, 1, 1), block=(32, 1, 1), args=[count], seed=seed, limit=2000)
    assert 2000 // 104 <= count[0] // 2 <= 2000 // 103 + 1


def test_a_launch_that_is_stepped_ends_too() -> None:
    started = Simulator().load(ptx(LIVELOCKS["nobody sets the flag"])).start("k", block=(64, 1, 1))
    with pytest.raises(nvb.DiagnosticError, match="never ends"):
        started.finish()


@pytest.mark.parametrize(
    "option", [{"limit": 0}, {"limit": -5}, {"limit": 1e3}, {"limit": "10"}, {"shared": -4}], ids=str
)
def test_a_launch_that_ends_early_refuses_numbers_that_cannot_be(option: dict[str, Any]) -> None:
    module = Simulator().load(ptx("bar.sync 0;"))
    with pytest.raises(nvb.DiagnosticError) as caught:
        module.launch("k", block=(32, 1, 1), **option)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.rule_id in ("simulator.launch", "call.argument")
    assert str(next(iter(option.values()))) in diagnostic.message


def test_the_ctas_that_have_not_begun_are_counted() -> None:
    module = Simulator().load(ptx("W: bra W;", []))
    with pytest.raises(nvb.DiagnosticError) as caught:
        module.launch("k", grid=(10, 1, 1), block=(1024, 1, 1), cluster=(2, 1, 1))
    (found,) = caught.value.diagnostics
    assert found.rule_id == "simulator.livelock"
    assert "2 CTAs of the grid have not begun; 8 run together here" in str(found)
