"""clusterlaunchcontrol: some clusters start and take over the others, and each piece of work is done once."""

from __future__ import annotations

import math

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, i32, u32
from nvbackend.codegen.cache import Cache
from nvbackend.simulator import Simulator, simulator
from nvbackend.simulator.progress import Progress
from tests.corpus.tensor_memory import work_of_clusters_that_have_not_started as persistent
from tests.simulator.calls.bodies import ptx

CTAS = 6


@pytest.mark.parametrize("started", [None, 1, 2, 5, 6, 100])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_each_piece_of_work_is_done_once(started, seed):
    text = persistent.compile(cache=Cache.disabled(), assemble=False).ptx
    module = Simulator().load(text)
    x = np.arange(128 * CTAS, dtype=np.float32)
    launched = {"grid": (CTAS,), "block": (128,), "shared": 1024, "args": [x]}
    module.launch(module.kernels[0], **launched, seed=seed, started=started)
    assert np.array_equal(x, 2 * np.arange(128 * CTAS, dtype=np.float32))


def taking(
    times: int, shape: tuple[int, int, int] = (1, 1, 1), *, by_rank: bool = False, meets: bool = False
) -> nvb.KernelDefinition:
    """Each CTA writes 1 and its place in the grid where its work is, and asks `times` times for more."""

    @nvb.kernel("sm_100a", threads=32, cluster=shape)
    def taking(k, owner: nvb.Pointer[i32], across: i32, up: i32):
        answer = k.shared(u32, 4, align=16, name="answer")
        asked = k.mbarrier.array(1, arrivals=1)
        k.mbarrier.ready()
        own = [k.block_id(axis) for axis in "xyz"]
        here = [k.var(one) for one in own]
        ranks = [k.cluster.rank(axis) for axis in "xyz"] if shape != (1, 1, 1) else [k.const(0, i32)] * 3
        done = k.var(0)
        if meets:  # beside the numbers of all
            k.atomic.add(owner + across * up, 0, order="acquire")
        with k.loop():
            (k.warp if shape == (1, 1, 1) else k.cluster).sync()
            place = lambda at: (at[2] * up + at[1]) * across + at[0]  # noqa: E731
            with k.if_(k.thread_id() == 0):
                owner[place(here)] = place(own) + 1
            k.break_if(done == times)
            with k.if_(k.thread_id() == 0):
                k.mbarrier.arrive(asked, expect_tx=16)
                first = k.cluster.rank() == 0 if shape != (1, 1, 1) else done >= 0
                with k.if_(first):
                    k.launch_control.try_cancel(answer, asked, multicast=shape != (1, 1, 1))
            k.mbarrier.wait(asked, done & 1)
            more, clusters = k.launch_control.canceled_cluster(answer)
            k.fence.proxy_async()
            k.break_if(~more)
            for one, first, rank, extent in zip(here, clusters, ranks, shape, strict=True):
                one.set(first.to(i32) * (extent if by_rank else 1) + rank)
            done += 1
        if shape != (1, 1, 1):
            k.cluster.sync()

    return taking


def owners(grid, started, times, shape=(1, 1, 1), **options):
    text = taking(times, shape, **options).compile(cache=Cache.disabled(), assemble=False).ptx
    module, ctas = Simulator().load(text), math.prod(grid)
    owner = np.zeros(ctas + options.get("meets", False), np.int32)
    args = [owner, np.int32(grid[0]), np.int32(grid[1])]
    module.launch("taking", grid=grid, block=(32,), shared=1024, args=args, started=started)
    return owner[:ctas].tolist()


def test_half_of_the_clusters_start():
    assert owners((5, 1, 1), None, 9) == [1, 2, 3, 1, 2]


def test_all_start_where_ctas_may_wait_for_each_other():
    """Unless the launch says how many."""
    assert owners((5, 1, 1), None, 9, meets=True) == [1, 2, 3, 4, 5]
    assert owners((5, 1, 1), 1, 9, meets=True) == [1] * 5


def test_what_is_taken_over_counts_as_done(monkeypatch):
    seen = []
    monkeypatch.setattr(simulator, "Progress", lambda execution: seen.append(execution) or Progress(execution))
    assert owners((8, 1, 1), 1, 2, (2, 1, 1)) == [1, 2, 1, 2, 1, 2, 7, 8]
    assert seen[0].done == 8


def test_what_nobody_takes_starts_later():
    assert owners((6, 1, 1), 2, 1) == [1, 2, 1, 2, 5, 6]
    assert owners((6, 1, 1), 6, 9) == [1, 2, 3, 4, 5, 6]


def test_an_answer_names_the_first_cta_of_its_cluster():
    """A grid of 4 x 2 x 2 in clusters of 2 x 1 x 2: the first cluster takes the three others."""
    assert owners((4, 2, 2), 1, 9, (2, 1, 2)) == [1, 2, 1, 2, 1, 2, 1, 2, 9, 10, 9, 10, 9, 10, 9, 10]


def test_a_cluster_that_is_taken_for_a_number_of_clusters_is_found():
    """With every cluster started it would pass."""
    assert owners((4, 1, 1), 2, 9, (2, 1, 1), by_rank=True) == [1, 2, 3, 4]
    with pytest.raises(DiagnosticError) as caught:
        owners((4, 1, 1), 1, 9, (2, 1, 1), by_rank=True)
    assert [one.rule_id for one in caught.value.diagnostics] == ["simulator.bounds"]


def test_the_number_that_starts_is_one_or_more():
    with pytest.raises(DiagnosticError, match="started=0") as caught:
        owners((4, 1, 1), 0, 1)
    assert [one.rule_id for one in caught.value.diagnostics] == ["simulator.launch"]


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
