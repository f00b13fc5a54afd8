"""mbarriers in kernels: phases, state words, bytes, and each misuse with its rule and line."""

from __future__ import annotations

import numpy as np
import pytest

from nvbackend import DiagnosticError
from tests.simulator.calls.bodies import rules, run

READY = "@%p0 mbarrier.init.shared.b64 [%r2], {count}; bar.sync 0;"
OUT = "mad.wide.u32 %rd9, %r0, 4, %rd0; st.global.u32 [%rd9], %r9;"


def out(count: int = 32) -> np.ndarray:
    return np.zeros(count, np.uint32)


def test_waits_hold_until_the_last_arrival():
    """Warp 1 writes before it arrives; warp 0 reads afterwards, in both phases."""
    body = (
        READY.format(count=32)
        + """
setp.lt.u32 %p1, %r0, 32; sub.u32 %r3, %r0, 32; shl.b32 %r3, %r3, 2; add.u32 %r3, %r3, %r1;
@%p1 bra READ;
st.shared.u32 [%r3], %r0;
mbarrier.arrive.shared.b64 _, [%r2];
bra END;
READ:
mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0;
@!%p2 bra READ;
shl.b32 %r4, %r0, 2; add.u32 %r4, %r4, %r1; ld.shared.u32 %r9, [%r4];
mad.wide.u32 %rd9, %r0, 4, %rd0; st.global.u32 [%rd9], %r9;
END:
"""
    )
    found = out()
    run(body, found, threads=64)
    assert found.tolist() == list(range(32, 64))


def test_a_state_word_names_its_phase():
    body = (
        READY.format(count=2)
        + """
@!%p0 bra END;
mbarrier.arrive.shared.b64 %rd5, [%r2];
mbarrier.pending_count.b64 %r4, %rd5;
mbarrier.test_wait.shared.b64 %p1, [%r2], %rd5;
selp.u32 %r5, 10, 20, %p1;
mbarrier.arrive.shared.b64 %rd6, [%r2];
mbarrier.pending_count.b64 %r6, %rd6;
mbarrier.test_wait.shared.b64 %p1, [%r2], %rd5;
selp.u32 %r7, 10, 20, %p1;
st.global.v4.u32 [%rd0], {%r4, %r5, %r6, %r7};
END:
"""
    )
    found = out(4)
    run(body, found)
    assert found.tolist() == [2, 20, 1, 10]


def test_a_wait_of_limited_time_ends_without_its_phase():
    body = (
        READY.format(count=2)
        + """
@!%p0 bra END;
mbarrier.try_wait.parity.shared.b64 %p1, [%r2], 0;
selp.u32 %r9, 1, 2, %p1;
mbarrier.arrive.shared.b64 _, [%r2], 2;
mbarrier.try_wait.parity.shared.b64 %p1, [%r2], 0;
@%p1 add.u32 %r9, %r9, 10;
st.global.u32 [%rd0], %r9;
END:
"""
    )
    found = out(1)
    run(body, found)
    assert found.tolist() == [12]


def test_bytes_of_bulk_copies_end_a_phase():
    body = (
        READY.format(count=1)
        + """
@!%p0 bra WAIT;
mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 128;
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 64, [%r2];
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1+64], [%rd1+64], 64, [%r2];
WAIT:
mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0;
@!%p2 bra WAIT;
shl.b32 %r4, %r0, 2; add.u32 %r4, %r4, %r1; ld.shared.u32 %r9, [%r4];
"""
        + OUT
    )
    for seed in range(4):
        found, source = out(), np.arange(32, dtype=np.uint32)
        run(body, found, source, seed=seed)
        assert np.array_equal(found, source)


def test_dropped_threads_are_expected_no_more():
    body = (
        READY.format(count=32)
        + """
setp.lt.u32 %p1, %r0, 16;
@%p1 mbarrier.arrive_drop.shared.b64 _, [%r2];
@!%p1 mbarrier.arrive.shared.b64 _, [%r2];
@!%p1 mbarrier.arrive.shared.b64 _, [%r2];
WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 1;
@!%p2 bra WAIT;
mov.u32 %r9, 7;
"""
        + OUT
    )
    found = out()
    run(body, found)
    assert (found == 7).all()


INIT = "@%p0 mbarrier.init.shared.b64 [%r2], 1;\nbar.sync 0;\n"
MISUSES = {
    "count": ("@%p0 mbarrier.init.shared.b64 [%r2], 0;", "mbarrier.count", 0),
    "large count": ("@%p0 mbarrier.init.shared.b64 [%r2], 1048576;", "mbarrier.count", 0),
    "address": ("@%p0 mbarrier.init.shared.b64 [%r2+4], 1;", "mbarrier.address", 0),
    "never initialised": ("@%p0 mbarrier.arrive.shared.b64 _, [%r2];", "mbarrier.uninitialised", 0),
    "ended": (INIT + "@%p0 mbarrier.inval.shared.b64 [%r2];\n@%p0 mbarrier.arrive.shared.b64 _, [%r2];",
              "mbarrier.uninitialised", 3),
    "initialised twice": (INIT + "@%p0 mbarrier.init.shared.b64 [%r2], 1;", "mbarrier.double-init", 2),
    "arrivals": (INIT + "@%p0 mbarrier.arrive.shared.b64 _, [%r2], 2;", "mbarrier.arrivals", 2),
    "must not complete": (INIT + "@%p0 mbarrier.arrive.noComplete.shared.b64 %rd5, [%r2], 1;", "mbarrier.arrivals", 2),
    "bytes": (INIT + "@%p0 mbarrier.expect_tx.relaxed.cta.shared.b64 [%r2], 1048576;", "mbarrier.expect-tx", 2),
    "parity": (INIT + "mbarrier.test_wait.parity.shared.b64 %p1, [%r2], 2;", "mbarrier.parity", 2),
    "state": (
        INIT
        + "@!%p0 bra END;\nmbarrier.arrive.shared.b64 %rd5, [%r2];\nmbarrier.arrive.shared.b64 _, [%r2];\n"
        + "mbarrier.test_wait.shared.b64 %p1, [%r2], %rd5;\nEND:",
        "simulator.mbarrier-state",
        5,
    ),
    "ended while waited for": (
        INIT
        + "@%p0 bra OTHER;\nW: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], 0;\n@!%p1 bra W;\nbra END;\n"
        + "OTHER: mbarrier.inval.shared.b64 [%r2];\nEND:",
        "simulator.mbarrier-waited-on",
        6,
    ),
    "nobody arrives": (
        INIT + "W: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], 0;\n@!%p1 bra W;",
        "simulator.deadlock",
        2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MISUSES)
def test_a_misuse_has_its_rule_and_line(case):
    body, rule, line = MISUSES[case]
    assert rules(body) == [(rule, line)]


AGAIN = """@%p0 mbarrier.init.shared.b64 [%r2], 1; @%p0 mbarrier.init.shared.b64 [%r2+8], {count}; bar.sync 0;
setp.eq.u32 %p3, %r0, 64; setp.ge.u32 %p4, %r0, 64; and.b32 %r3, %r0, 31; setp.eq.u32 %p5, %r3, 0;
@%p4 bra FILL;
A: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], 0; @!%p1 bra A; bar.sync 1, 64;
B: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], 0; @!%p1 bra B;
@{by} mbarrier.arrive.shared.b64 _, [%r2+8];
C: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], 1; @!%p1 bra C; bra END;
FILL: @%p3 mbarrier.arrive.shared.b64 _, [%r2];
D: mbarrier.try_wait.parity.shared.b64 %p1, [%r2+8], 0; @!%p1 bra D;
@%p3 mbarrier.arrive.shared.b64 _, [%r2];
END:"""
"""Warps 0 and 1 wait twice for a stage, with a barrier between; the warps `by` give it back, and warp 2 fills it."""


def test_a_warp_that_waits_again_for_a_stage_may_miss_its_phase():
    (found,) = rules(AGAIN.format(count=1, by="%p0"), threads=96)
    assert found == ("simulator.missed-phase", 4)


def test_every_warp_that_waits_again_gives_the_stage_back():
    assert not rules(AGAIN.format(count=2, by="%p5"), threads=96)


def test_a_wait_for_the_wrong_parity_says_what_it_waits_for():
    """Four CTAs whose threads all wait: one text, with the barrier, its phase, and what is pending."""
    body = """@%p0 mbarrier.init.shared.b64 [%r2+8], 2; bar.sync 0;
@!%p0 bra W;
mbarrier.arrive.shared.b64 _, [%r2+8]; mbarrier.arrive.shared.b64 _, [%r2+8];
mbarrier.arrive.expect_tx.shared.b64 _, [%r2+8], 64;
W: mbarrier.try_wait.parity.shared.b64 %p1, [%r2+8], 1; @!%p1 bra W;"""
    with pytest.raises(DiagnosticError) as caught:
        run(body, threads=128, cluster=4)
    text = str(caught.value)
    assert text.count("waits for") == 1
    assert "thread 0 of CTA 0 and 511 more of 4 CTAs (0, 1, 2, 3)" in text
    assert "the phase of parity 1 of the mbarrier bar+8 (shared address 0x2408)" in text
    assert "phase 1 (parity 1): 1 of 2 arrivals and 64 bytes are pending" in text
    assert "mbarrier.arrive.expect_tx.shared.b64 of PTX line 14 came there last" in text
    assert "a wait for parity 0 would pass" in text


def test_bytes_that_nobody_expects_are_told():
    body = """@%p0 mbarrier.init.shared.b64 [%r2], 1; bar.sync 0;
@%p0 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd0], 64, [%r2];
W: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], 0; @!%p1 bra W;"""
    with pytest.raises(DiagnosticError, match="64 bytes have come that were not expected"):
        run(body, out())
