"""clusterlaunchcontrol: every cluster has started, so each does its own work, once."""

from __future__ import annotations

import numpy as np
import pytest

from nvbackend import DiagnosticError
from nvbackend.codegen.cache import Cache
from nvbackend.simulator import Simulator
from tests.corpus.tensor_memory import work_of_clusters_that_have_not_started as persistent
from tests.simulator.calls.bodies import ptx

CTAS = 6


def test_each_cta_does_its_work_once():
    text = persistent.compile(cache=Cache.disabled(), assemble=False).ptx
    module = Simulator().load(text)
    x = np.arange(128 * CTAS, dtype=np.float32)
    module.launch(module.kernels[0], grid=(CTAS,), block=(128,), shared=1024, args=[x])
    assert np.array_equal(x, 2 * np.arange(128 * CTAS, dtype=np.float32))


BODY = """
@%p0 mbarrier.init.shared.b64 [%r2], 1;
bar.sync 0;
@%p0 mbarrier.arrive.expect_tx.shared.b64 %rd4, [%r2], {expected};
@%p0 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r1], [%r2];
WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], 0;
@!%p1 bra WAIT;
.reg .b128 %answer;
ld.shared.b128 %answer, [%r1];
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p2, %answer;
clusterlaunchcontrol.query_cancel.get_first_ctaid::y.b32.b128 %r3, %answer;
selp.u32 %r4, 1, 2, %p2;
add.u32 %r4, %r4, %r3;
st.global.u32 [%rd0], %r4;
"""


def ask(expected):
    out = np.zeros(1, np.uint32)
    text = ptx(BODY.format(expected=expected), [out], target="sm_100a")
    Simulator().load(text).launch("k", block=(32,), args=[out])
    return int(out[0])


AGAIN = """
mov.u32 %r5, 0;
@%p0 mbarrier.init.shared.b64 [%r2], 1;
bar.sync 0;
.reg .b128 %answer;
ASK: @%p0 mbarrier.arrive.expect_tx.shared.b64 %rd4, [%r2], 16;
@%p0 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r1], [%r2];
WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], %r5;
@!%p1 bra WAIT;
ld.shared.b128 %answer, [%r1];
{query}
fence.proxy.async;
bar.sync 0;
add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, 2; {leaves} @%p3 bra ASK;
"""
QUERY = "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p2, %answer;"


@pytest.mark.parametrize(
    ("query", "leaves", "refused"),
    [
        (QUERY, "", True),
        (QUERY, "and.pred %p3, %p3, %p2;", False),
        ("", "", False),  # it does not know that none is left
    ],
)
def test_who_has_read_that_none_is_left_asks_no_more(query, leaves, refused):
    text = ptx(AGAIN.format(query=query, leaves=leaves), [], target="sm_100a")
    module = Simulator().load(text)
    if not refused:
        module.launch("k", block=(32,))
        return
    with pytest.raises(DiagnosticError, match="thread 0 of CTA 0 asks for another cluster by try_cancel") as caught:
        module.launch("k", block=(32,))
    assert [one.rule_id for one in caught.value.diagnostics] == ["simulator.asked-again"]


def test_the_answer_is_no_and_has_16_bytes():
    assert ask(expected=16) == 2


def test_a_barrier_that_expects_more_than_the_answer_waits_for_ever():
    with pytest.raises(DiagnosticError) as caught:
        ask(expected=32)
    assert [one.rule_id for one in caught.value.diagnostics] == ["simulator.deadlock"]
