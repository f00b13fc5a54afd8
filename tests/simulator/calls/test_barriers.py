"""Barriers of threads: counts, partial arrivals, reductions, clusters, and misuse."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simulator.calls.bodies import rules, run

OUT = "mad.wide.u32 %rd9, %r0, 4, %rd0; st.global.u32 [%rd9], %r9;"


def test_producers_arrive_and_consumers_wait():
    """Warps 0 and 1 write and only arrive, warps 2 and 3 wait and read what they wrote."""
    body = """
shl.b32 %r3, %r0, 2; add.u32 %r3, %r3, %r1;
setp.ge.u32 %p1, %r0, 64;
@%p1 bra READ;
st.shared.u32 [%r3], %r0;
bar.arrive 3, 128;
bra END;
READ:
bar.sync 3, 128;
ld.shared.u32 %r9, [%r3-256];
sub.u32 %r8, %r0, 64; mad.wide.u32 %rd9, %r8, 4, %rd0; st.global.u32 [%rd9], %r9;
END:
"""
    for seed in range(4):
        found = np.zeros(64, np.uint32)
        run(body, found, threads=128, seed=seed)
        assert found.tolist() == list(range(64))


def test_a_reduction_over_the_threads():
    body = """
setp.lt.u32 %p1, %r0, 40; setp.lt.u32 %p2, %r0, 64;
bar.red.popc.u32 %r4, 1, %p1; bar.red.and.pred %p3, 1, %p2; bar.red.or.pred %p4, 1, 64, !%p2;
bar.red.and.pred %p5, 1, %p1;
selp.u32 %r5, 1, 0, %p3; selp.u32 %r6, 1, 0, %p4; selp.u32 %r7, 1, 0, %p5;
mad.wide.u32 %rd9, %r0, 16, %rd0; st.global.v4.u32 [%rd9], {%r4, %r5, %r6, %r7};
"""
    found = np.zeros((64, 4), np.uint32)
    run(body, found, threads=64)
    assert np.array_equal(found, np.tile(np.array([40, 1, 0, 0], np.uint32), (64, 1)))


def test_a_diverged_warp_meets_at_the_barrier():
    body = """
setp.lt.u32 %p1, %r0, 5;
@%p1 bra LATE;
mov.u32 %r9, 1;
bra MEET;
LATE: mov.u32 %r9, 2;
MEET: bar.sync 0;
"""
    found = np.zeros(64, np.uint32)
    run(body + OUT, found, threads=64, seed=3)
    assert found.tolist() == [2] * 5 + [1] * 59


def test_threads_that_have_ended_are_not_waited_for():
    body = """
setp.ge.u32 %p1, %r0, 40;
@%p1 ret;
bar.sync 0;
mov.u32 %r9, 5;
"""
    found = np.zeros(96, np.uint32)
    run(body + OUT, found, threads=96)
    assert found.tolist() == [5] * 40 + [0] * 56


def test_a_cluster_waits_for_all_of_its_threads():
    """Each CTA writes into the other one, and reads its own after the barrier."""
    body = """
mov.u32 %r3, %cluster_ctarank; xor.b32 %r4, %r3, 1; mapa.shared::cluster.u32 %r5, %r1, %r4;
shl.b32 %r6, %r0, 2; add.u32 %r5, %r5, %r6;
mad.lo.u32 %r7, %r3, 1000, %r0;
barrier.cluster.arrive; barrier.cluster.wait;
st.shared::cluster.u32 [%r5], %r7;
barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
add.u32 %r6, %r6, %r1; ld.shared.u32 %r9, [%r6];
mad.lo.u32 %r8, %r3, 64, %r0; mad.wide.u32 %rd9, %r8, 4, %rd0; st.global.u32 [%rd9], %r9;
"""
    for seed in range(3):
        found = np.zeros((2, 64), np.uint32)
        run(body, found, threads=64, cluster=2, seed=seed)
        assert np.array_equal(found, [np.arange(64) + 1000, np.arange(64)])


HALVES = "setp.lt.u32 %p1, %r0, 32;\n@%p1 bra A;\n{second}\nbra END;\nA: {first}\nEND:"
MISUSES = {
    "number": ("bar.sync 16;", "barrier.id"),
    "no kind": ("barrier.cta.aligned 0;", "simulator.unknown"),
    "threads": ("bar.sync 1, 40;", "barrier.threads"),
    "two counts": (HALVES.format(first="bar.arrive 1, 64;", second="bar.sync 1, 96;"), "simulator.barrier-counts"),
    "not enough": ("setp.lt.u32 %p1, %r0, 32;\n@%p1 bar.arrive 1, 128;\nbar.sync 1, 128;\n", "simulator.deadlock"),
    "too many": (HALVES.format(first="bar.arrive 1, 32;", second="bar.sync 2, 96;"), "simulator.deadlock"),
    "cluster twice": ("barrier.cluster.arrive;\nbarrier.cluster.arrive;", "cluster.arrived-twice"),
    "cluster alone": ("barrier.cluster.wait;", "cluster.wait-alone"),
    "half of the cluster": (
        HALVES.format(first="", second="barrier.cluster.arrive;\nbarrier.cluster.wait;")
        + "\nW: bra W2;\nW2: bar.sync 0;",
        "simulator.deadlock",
    ),
    "diverged": (
        "setp.lt.u32 %p1, %r0, 5;\n@%p1 bra W;\nbar.sync 0;\nbra END;\nW: bar.sync 1;\nEND:",
        "simulator.deadlock",
    ),
}


@pytest.mark.parametrize("case", MISUSES)
def test_a_misuse_has_its_rule(case):
    body, rule = MISUSES[case]
    assert [found for found, _ in rules(body, threads=64)] == [rule]


def test_more_threads_than_a_barrier_counts():
    """Two arrivals of one warp may both count in the first phase."""
    body = HALVES.format(first="bar.arrive 1, 64;\nbar.arrive 1, 64;", second="bar.sync 1, 64;")
    assert [found for found, _ in rules(body, threads=64)] == ["barrier.crowd"]
    crowd = "bar.arrive 1, 32;"
    assert rules(crowd + "\n" + "bar.arrive 1, 96;\nbar.sync 1, 96;", threads=64)[0][0] == "simulator.barrier-crowd"
