"""CTAs of a cluster reach into one another: such as have started, and have not ended."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simulator.calls import bodies

PEER = """mov.u32 %r3, %cluster_ctarank; xor.b32 %r4, %r3, 1; mapa.shared::cluster.u32 %r5, %r1, %r4;
mapa.shared::cluster.u32 %r6, %r2, %r4; setp.eq.u32 %p1, %r3, 0;"""
MADE = "@%p0 mbarrier.init.shared.b64 [%r2], 32; fence.mbarrier_init.release.cluster;"
SYNC = "barrier.cluster.arrive; barrier.cluster.wait;"
RELAXED = "barrier.cluster.arrive.relaxed; barrier.cluster.wait;"
ARRIVE = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];"
STORE = "st.shared::cluster.u32 [%r5], %r1;"
LOAD = "ld.shared::cluster.u32 %r9, [%r5];"
OWN = "st.shared.u32 [%r1], %r1;"
WAIT = "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra W;"
COPY = "@%p0 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r5+64], [%r1], 16, [%r6];"
EXPECT = "@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 16; setp.gt.u32 %p3, %r0, 0;\n"
EXPECT += "@%p3 mbarrier.arrive.shared.b64 _, [%r2];"
FILL = "@%p0 st.shared.v4.u32 [%r1], {%r1, %r1, %r1, %r1}; fence.proxy.async;"

RIGHT = {
    "arrivals that each waits for": MADE + SYNC + ARRIVE + "\n" + WAIT,
    "a relaxed barrier of the cluster, after the fence": MADE + RELAXED + ARRIVE + "\n" + WAIT,
    "a barrier of the cluster at the end": MADE + SYNC + ARRIVE + SYNC,
    "a relaxed one at the end": MADE + SYNC + ARRIVE + RELAXED,
    "stores": SYNC + STORE + SYNC,
    "loads": OWN + SYNC + LOAD + SYNC,
    "copies that each waits for": MADE + FILL + SYNC + EXPECT + SYNC + COPY + "\n" + WAIT + "\n" + SYNC,
}
WRONG = {
    "nobody waits for the arrivals": (MADE + SYNC + ARRIVE, {"cluster.exit-before-peers"}),
    "one of two waits for them": (
        MADE + SYNC + ARRIVE + "\n@%p1 bra E;\n" + WAIT + "\nE:",
        {"cluster.exit-before-peers"},
    ),
    "nobody waits for the stores": (SYNC + STORE, {"cluster.exit-before-access"}),
    "nobody waits for the loads": (OWN + SYNC + LOAD, {"cluster.exit-before-access"}),
    "nobody waits for the copies": (MADE + FILL + SYNC + EXPECT + SYNC + COPY, {"cluster.exit-before-access"}),
    "each waits for the peer's copy, and not until its own is read": (
        MADE + FILL + SYNC + EXPECT + SYNC + COPY + "\n" + WAIT,
        {"cluster.exit-before-access"},
    ),
    "the peer may not have started": (STORE + SYNC, {"cluster.access-before-start"}),
    "the barrier is of this CTA alone": ("bar.sync 0;" + STORE + SYNC, {"cluster.access-before-start"}),
    "the peer's mbarrier may not be there": (
        MADE + "bar.sync 0;" + ARRIVE + "\n" + WAIT,
        {"cluster.access-before-start", "mbarrier.uninitialised"},
    ),
    "a relaxed barrier without a fence": (
        "@%p0 mbarrier.init.shared.b64 [%r2], 32;" + RELAXED + ARRIVE + "\n" + WAIT,
        {"mbarrier.not-ready"},
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right(name):
    for seed in range(5):
        assert bodies.rules(PEER + RIGHT[name], cluster=2, seed=seed) == []


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong(name):
    body, expected = WRONG[name]
    for seed in range(5):
        ((found, _),) = bodies.rules(PEER + body, cluster=2, seed=seed)
        assert found in expected


def test_a_cluster_of_one():
    assert bodies.rules(SYNC + STORE.replace("%r5", "%r1")) == []


ONE = "@%p0 mbarrier.init.shared.b64 [%r2], 1; bar.sync 0; @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 16;"
FROM = "@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1+64], [%rd0], 16, [%r2];\n"


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ("", ["dry-run.fill-left"]),
        (WAIT, []),
        ("@!%p0 bra E;\n" + WAIT + "\nE:", []),
        (WAIT.replace(" 0; @!", " 1; @!"), ["dry-run.fill-left"]),
    ],
    ids=["nobody waits", "all wait", "one thread waits", "all wait for the phase before"],
)
def test_a_cta_outlives_the_copies_that_fill_its_memory(after: str, expected: list[str]):
    """Two warps: the other one may end first. So does a CTA whose copy comes only when its threads have ended."""
    for seed in range(5):
        found = bodies.rules(ONE + FROM + after, np.zeros(4, np.uint32), threads=64, seed=seed)
        assert [rule for rule, _ in found] == expected


def test_an_mbarrier_of_this_cta_that_may_not_be_there():
    """The first warp initialises it: in the simulator's order before the others come, on the hardware perhaps not."""
    arrive = "mbarrier.arrive.shared.b64 _, [%r2];"
    for order, expected in (("bar.sync 0;", []), ("", ["mbarrier.not-ready"])):
        for body in (arrive, "mbarrier.test_wait.parity.shared.b64 %p2, [%r2], 1;"):
            made = "@%p0 mbarrier.init.shared.b64 [%r2], 64;"
            assert [rule for rule, _ in bodies.rules(f"{made}{order}{body}", threads=64)] == expected
