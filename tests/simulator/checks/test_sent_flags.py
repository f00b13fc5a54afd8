"""Flags in shared memory that st.async writes: a strong read meets what their sender had done when they were sent."""

from __future__ import annotations

import numpy as np
import pytest

from nvbackend.diagnostics import DiagnosticError
from nvbackend.simulator import Simulator
from nvbackend.simulator.checks import strong

TEXT = """.version 9.0
.target sm_90a
.address_size 64
.shared .align 16 .b8 flags[32];
.shared .align 8 .b64 full;
.visible .entry k(.param .u64 data)
{{
.reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .pred %p<4>;
ld.param.u64 %rd0, [data]; mov.u32 %r0, %cluster_ctarank; mov.u32 %r1, flags; mov.u32 %r2, full;
st.shared.u32 [%r1], 0; st.shared.u32 [%r1+16], 0; mbarrier.init.shared.b64 [%r2], 1;
fence.mbarrier_init.release.cluster; barrier.cluster.arrive; barrier.cluster.wait;
mapa.shared::cluster.u32 %r3, %r1, 1; mapa.shared::cluster.u32 %r4, %r2, 1;
setp.eq.u32 %p0, %r0, 1; @%p0 bra READ;
{write}
bra END;
READ: mbarrier.arrive.expect_tx.shared.b64 _, [%r2], {bytes};
W: {load} setp.ne.u32 %p1, %r5, 1; @%p1 bra W; {after}
ld.global.u32 %r6, [%rd0];
st.global.u32 [%rd0+64], %r6;
D: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra D;
END: barrier.cluster.arrive; barrier.cluster.wait; ret;
}}
"""
DATA = "st.global.u32 [%rd0], 7;"
SEND = "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r3{place}], {value}, [%r4];"
ACQUIRES, RELAXED = "ld.acquire.cluster.shared.u32 %r5, [%r1];", "ld.relaxed.cluster.shared.u32 %r5, [%r1];"


def sent(*places: str, value: str = "%r7") -> str:
    return "mov.u32 %r7, 1;" + "".join(SEND.format(place=place, value=value) for place in places)


def rule(write: str, load: str, after: str = "", *, bytes: int = 4) -> str | None:
    """What a run draws; None where the data is read."""
    data = np.zeros(32, np.uint32)
    text = TEXT.format(write=write, load=load, after=after, bytes=bytes)
    try:
        Simulator().load(text).launch("k", grid=(2, 1, 1), block=(1, 1, 1), cluster=(2, 1, 1), args=[data])
    except DiagnosticError as error:
        return error.diagnostics[0].rule.id
    assert data[16] == 7
    return None


@pytest.mark.parametrize(("load", "after"), [(ACQUIRES, ""), (RELAXED, "fence.acq_rel.cluster;")])
def test_what_was_done_before_a_flag_is_sent_is_seen_after_it(load: str, after: str) -> None:
    assert rule(DATA + sent(""), load, after) is None


def test_a_read_that_acquires_nothing_orders_nothing() -> None:
    assert rule(DATA + sent(""), RELAXED) == "simulator.flag-order"


def test_what_is_done_after_a_flag_was_sent_is_not_seen() -> None:
    assert rule(sent("") + DATA, ACQUIRES) is not None


@pytest.mark.parametrize("most", [0, strong.MOST_SENT])
def test_the_last_of_several_flags_counts(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(strong, "MOST_SENT", most)
    assert rule(sent("+16") + DATA + sent(""), ACQUIRES, bytes=8) is None
    assert rule(sent("+16") + DATA + sent("+16", ""), ACQUIRES, bytes=12) is None
    assert rule(sent("") + DATA + sent("+16"), ACQUIRES, bytes=8) is not None
