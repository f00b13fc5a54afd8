"""The address of a CTA's own memory that was mapped to its own rank: no peer has to be there."""

from __future__ import annotations

import pytest

from nvbackend import f32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.diagnostics import gather
from nvbackend.signature import Parameter, Pointer

EARLY, LATE = "cluster.access-before-start", "cluster.exit-before-access"


def verified(body) -> list[str]:
    """The rules that a kernel with `body(k, out, own)` breaks."""
    k = KernelBuilder("peers", "sm_90a", threads=128, cluster=2, parameters=[Parameter("out", Pointer(f32, align=16))])
    body(k, k.arguments[0], k.shared(f32, 128))
    return sorted(one.rule_id for one in gather(k.finish))


def some_variable(k):
    """0 or 1, in a variable that some threads set."""
    at = k.var(0)
    with k.if_(k.thread_id() == 0):
        at.set(1)
    return at.value


OWN = {
    "its rank": lambda k: k.cluster.rank(),
    "twice the other": lambda k: k.cluster.peer_rank() ^ 1,
    "by arithmetic": lambda k: (k.cluster.rank() + 3) % 2 ^ 1,
}


@pytest.mark.parametrize("what", OWN)
@pytest.mark.parametrize("use", ["load", "store", "atomic"])
def test_the_memory_of_its_own_rank_is_there(what, use):
    def body(k, out, own):
        own[k.thread_id()] = 0.0
        mine = k.cluster.map_shared_rank(own, OWN[what](k)) + k.thread_id()
        {"load": mine.load, "store": lambda: mine.store(1.0), "atomic": lambda: mine.atomic("add", 1.0)}[use]()

    assert verified(body) == []


USES = {
    "load": lambda there: there.load(),
    "load in order": lambda there: there.load(order="acquire", scope="cluster"),
    "load as one": lambda there: there.load(order="relaxed", scope="cluster"),
    "store": lambda there: there.store(1.0),
    "store in order": lambda there: there.store(1.0, order="release", scope="cluster"),
    "atomic": lambda there: there.atomic("add", 1.0),
}


@pytest.mark.parametrize("of_peer", [False, True])
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_only_a_peer_has_to_be_there_for_an_access_of_any_kind(use, of_peer):
    def body(k, out, own):
        own[k.thread_id()] = 0.0
        rank = k.cluster.rank()
        use(k.cluster.map_shared_rank(own, rank ^ 1 if of_peer else rank) + k.thread_id())

    assert verified(body) == ([EARLY, LATE] if of_peer else [])


@pytest.mark.parametrize(
    "rank", [lambda k: k.thread_id() % 2, lambda k: k.cluster.rank() ^ some_variable(k), lambda k: 0]
)
def test_a_rank_that_is_its_own_in_part(rank):
    def body(k, out, own):
        out[k.thread_id()] = k.cluster.map_shared_rank(own, rank(k))[k.thread_id()]

    assert verified(body) == [EARLY, LATE]


def test_the_ranks_of_a_loop_that_begins_at_its_own():
    def body(k, out, own):
        with k.range(2) as i:
            out[i] = k.cluster.map_shared_rank(own, (k.cluster.rank() + i) % 2)[k.thread_id()]

    assert verified(body) == [EARLY, LATE]


@pytest.mark.parametrize("synced", [False, True])
def test_a_race_by_way_of_its_own_rank(synced):
    def body(k, out, own):
        own[k.thread_id()] = 1.0
        if synced:
            k.barrier.sync()
        out[k.thread_id()] = k.cluster.map_shared_rank(own, k.cluster.rank())[127 - k.thread_id()]

    assert verified(body) == ([] if synced else ["shared.missing-barrier"])
