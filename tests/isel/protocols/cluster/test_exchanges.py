"""What CTAs of a cluster write and read in one another's memory: a barrier of the cluster must be between, and release.

What is expected is written down by hand from the order that PTX ISA 8 (release and acquire) and 9.7.13.3
(barrier.cluster) give.
"""

from __future__ import annotations

import copy

import pytest

import nvbackend as nvb
from nvbackend import f32, i32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.isel.protocols.cluster.exchanges import check_exchanges
from nvbackend.signature import Parameter, Pointer, Scalar

RACE = "cluster.missing-barrier"


def found(program, cluster: int = 2, threads: int = 128) -> list[str]:
    parameters = [Parameter("out", Pointer(f32, align=16)), Parameter("n", Scalar(i32))]
    k = KernelBuilder("exchange", "sm_90a", threads=threads, cluster=cluster, parameters=parameters)
    own = k.shared(f32, 2 * threads)
    try:
        program(k, own, *k.arguments)
        return [one.rule_id for one in k.finish().diagnostics]
    except nvb.DiagnosticError as error:
        return [one.rule_id for one in error.diagnostics]


def sync(k, kind: str) -> None:
    """What is between two accesses."""
    match kind:
        case "cta":
            k.barrier.sync()
        case "cluster":
            k.cluster.sync()
        case "relaxed":
            k.cluster.arrive("relaxed")
            k.cluster.wait()
        case "spelled":
            k.cluster.arrive("release")
            k.cluster.wait("acquire")
        case "fenced":
            k.fence.thread("acq_rel", "cluster")
            k.cluster.arrive("relaxed")
            k.cluster.wait()
        case "fenced in the CTA":
            k.fence.thread("acq_rel", "cta")
            k.cluster.arrive("relaxed")
            k.cluster.wait()


ORDERED, OPEN = ("cluster", "spelled", "fenced"), ("nothing", "cta", "relaxed", "fenced in the CTA")


@pytest.mark.parametrize("kind", [*ORDERED, *OPEN])
@pytest.mark.parametrize("writer", ["own", "peer"])
def test_what_is_between_a_write_and_a_read(kind, writer):
    def program(k, own, out, n):
        peer = k.cluster.map_shared_rank(own, k.cluster.peer_rank())
        mine, theirs = (own, peer) if writer == "own" else (peer, own)
        k.cluster.sync()
        mine[k.thread_id()] = 1.0
        sync(k, kind)
        out[k.thread_id()] = theirs[k.thread_id()]
        k.cluster.sync()

    assert found(program) == [RACE] * (kind in OPEN)


@pytest.mark.parametrize("kind", [*ORDERED, *OPEN])
@pytest.mark.parametrize("writer", ["own", "peer"])
def test_what_is_between_a_read_and_a_write(kind, writer):
    """After a relaxed barrier the reads of the other CTA have been executed, which is left alone."""

    def program(k, own, out, n):
        peer = k.cluster.map_shared_rank(own, k.cluster.peer_rank())
        mine, theirs = (own, peer) if writer == "own" else (peer, own)
        k.cluster.sync()
        out[k.thread_id()] = theirs[k.thread_id()]
        sync(k, kind)
        mine[k.thread_id()] = 1.0
        k.cluster.sync()

    assert found(program) == ([RACE] if kind in ("nothing", "cta") else [])


@pytest.mark.parametrize("place", ["before", "between", "after"])
def test_a_store_beside_an_arrival(place):
    def program(k, own, out, n):
        k.cluster.sync()
        for step in ("before", "arrive", "between", "wait", "after"):
            if step == place:
                own[k.thread_id()] = 1.0
            if step in ("arrive", "wait"):
                {"arrive": k.cluster.arrive, "wait": k.cluster.wait}[step]()
        out[k.thread_id()] = k.cluster.map_shared_rank(own, k.cluster.peer_rank())[k.thread_id()]
        k.cluster.sync()

    assert found(program) == ([] if place == "before" else [RACE])


@pytest.mark.parametrize("order", ["release", "relaxed"])
@pytest.mark.parametrize("peers", ["first", "between", "last"])
@pytest.mark.parametrize("own", ["first", "between", "last"])
def test_beside_the_first_barrier_of_the_cluster(own, peers, order):
    """A peer that may not have started yet is the one mistake told, whatever else its memory is used for."""

    def program(k, place, out, n):
        for step in ("first", "arrive", "between", "wait", "last"):
            if step == own:
                place[k.thread_id()] = 1.0
            if step == peers:
                out[k.thread_id()] = k.cluster.map_shared_rank(place, k.cluster.peer_rank())[k.thread_id()]
            if step in ("arrive", "wait"):
                {"arrive": lambda: k.cluster.arrive(order), "wait": k.cluster.wait}[step]()
        k.cluster.sync()

    if peers != "last":
        assert found(program) == ["cluster.access-before-start"]
    else:
        assert found(program) == [RACE] * (own != "first" or order == "relaxed")


RANKS = {
    "the first": (lambda k: 0, True),
    "the next": (lambda k: (k.cluster.rank() + 1) % 4, True),
    "itself": (lambda k: k.cluster.rank(), False),
    "a parameter's": (lambda k: k.arguments[1], False),
    "by the thread": (lambda k: k.thread_id() % 4, False),
}


@pytest.mark.parametrize("rank", RANKS)
def test_the_rank_of_the_peer(rank):
    of, is_certain = RANKS[rank]

    def program(k, own, out, n):
        k.cluster.sync()
        own[k.thread_id()] = 1.0
        k.barrier.sync()
        out[k.thread_id()] = k.cluster.map_shared_rank(own, of(k))[k.thread_id()]
        k.cluster.sync()

    assert found(program, cluster=4) == [RACE] * is_certain


def test_a_loop_over_all_ranks():
    def program(k, own, out, n):
        total = k.var(0.0)
        k.cluster.sync()
        own[k.thread_id()] = 1.0
        k.barrier.sync()
        with k.range(4) as rank:
            total += k.cluster.map_shared_rank(own, rank)[k.thread_id()]
        out[k.thread_id()] = total
        k.cluster.sync()

    assert found(program, cluster=4) == [RACE]


@pytest.mark.parametrize("first", range(3))
def test_the_first_round_of_a_loop_over_ranks_is_certain(first):
    """Which CTA's memory is written and read is that of the first round: whether others come later is open."""
    k = KernelBuilder("exchange", "sm_90a", threads=128, cluster=4, parameters=[Parameter("out", Pointer(f32))])
    own, total = k.shared(f32, 128), k.var(0.0)
    k.cluster.sync()
    own[k.thread_id()] = 1.0
    k.barrier.sync()
    with k.range(first, 4) as rank:
        total += k.cluster.map_shared_rank(own, rank)[k.thread_id()]
    k.arguments[0][k.thread_id()] = total
    k.cluster.sync()
    with pytest.raises(nvb.DiagnosticError) as caught:
        k.finish()
    (told,) = caught.value.diagnostics
    assert (told.rule_id, told.values["owner"]) == (RACE, first)


@pytest.mark.parametrize("reader", range(3))
def test_a_rank_that_only_some_have_a_next_of(reader):
    """Rank 2 of three has no next one, and does not come there."""

    def program(k, own, out, n):
        k.cluster.sync()
        own[k.thread_id()] = 1.0
        k.barrier.sync()
        with k.if_(k.cluster.rank() == reader):
            out[k.thread_id()] = k.cluster.map_shared_rank(own, k.cluster.rank() + 1)[k.thread_id()]
        k.cluster.sync()

    assert found(program, cluster=3) == ([RACE] if reader < 2 else ["cluster.rank"])


@pytest.mark.parametrize("kind", ["cta", "cluster"])
def test_one_rank_writes_and_another_reads(kind):
    def program(k, own, out, n):
        rank = k.cluster.rank()
        k.cluster.sync()
        with k.if_(rank == 0):
            own[k.thread_id()] = 1.0
        sync(k, kind)
        with k.if_(rank == 1):
            out[k.thread_id()] = k.cluster.map_shared_rank(own, 0)[k.thread_id()]
        k.cluster.sync()

    assert found(program) == ([RACE] if kind == "cta" else [])


def test_ranks_in_the_places():
    """Each CTA has its half in all memories: what is read is never what its owner writes."""

    def program(k, own, out, n):
        rank, thread = k.cluster.rank(), k.thread_id()
        k.cluster.sync()
        own[rank * 128 + thread] = 1.0
        k.barrier.sync()
        out[thread] = k.cluster.map_shared_rank(own, k.cluster.peer_rank())[rank * 128 + thread]
        k.cluster.sync()

    def wrong(k, own, out, n):
        rank, thread = k.cluster.rank(), k.thread_id()
        k.cluster.sync()
        own[rank * 128 + thread] = 1.0
        k.barrier.sync()
        out[thread] = k.cluster.map_shared_rank(own, k.cluster.peer_rank())[k.cluster.peer_rank() * 128 + thread]
        k.cluster.sync()

    assert found(program) == []
    assert found(wrong) == [RACE]


@pytest.mark.parametrize(("first", "second"), [("cluster", "cluster"), ("cluster", "cta"), ("cta", "cluster")])
def test_each_round_of_a_loop(first, second):
    """Of a value that is exchanged in each round, one barrier is before the read, one before the next write."""

    def program(k, own, out, n):
        peer = k.cluster.map_shared_rank(own, k.cluster.peer_rank())
        k.cluster.sync()
        with k.range(n) as i:
            own[k.thread_id()] = 1.0
            sync(k, first)
            out[i * 128 + k.thread_id()] = peer[k.thread_id()]
            sync(k, second)
        k.cluster.sync()

    assert found(program) == ([] if (first, second) == ("cluster", "cluster") else [RACE])


# -- left alone -----------------------------------------------------------------------------------------------------


def other_bytes(k, own, out, n):
    own[k.thread_id()] = 1.0
    out[k.thread_id()] = k.cluster.map_shared_rank(own, k.cluster.peer_rank())[k.thread_id() + 128]


def atomics_alone(k, own, out, n):
    own.atomic("add", 1.0)
    k.cluster.map_shared_rank(own, k.cluster.peer_rank()).atomic("add", 1.0)


def a_place_that_nobody_knows(k, own, out, n):
    own[n] = 1.0
    out[k.thread_id()] = k.cluster.map_shared_rank(own, k.cluster.peer_rank())[k.block_id("y")]


def an_mbarrier_between(k, own, out, n):
    full = k.mbarrier.array(1, 1)
    k.mbarrier.ready()
    own[k.thread_id()] = 1.0
    k.barrier.sync()
    k.mbarrier.arrive(full, rank=k.cluster.peer_rank(), when=k.thread_id() == 0)
    k.mbarrier.wait(full, 0)
    out[k.thread_id()] = k.cluster.map_shared_rank(own, k.cluster.peer_rank())[k.thread_id()]


def one_side_under_a_condition(k, own, out, n):
    """The CTAs of a cluster may take different ways, of which the host knows that they exclude each other."""
    with k.if_(n > 0):
        own[k.thread_id()] = 1.0
    with k.if_(n < 0):
        out[k.thread_id()] = k.cluster.map_shared_rank(own, k.cluster.peer_rank())[k.thread_id()]


def the_side_of_each_cta(k, own, out, n):
    with k.if_(k.block_id() < n):
        own[k.thread_id()] = 1.0
    with k.else_():
        out[k.thread_id()] = k.cluster.map_shared_rank(own, k.cluster.peer_rank())[k.thread_id()]


def a_flag_that_is_polled(k, own, out, n):
    flag = k.shared(i32, 1)
    own[k.thread_id()] = 1.0
    k.fence.thread("acq_rel", "cluster")
    k.cluster.map_shared_rank(flag, k.cluster.peer_rank()).atomic("exch", 1)
    with k.loop():
        k.break_if(flag.atomic("add", 0) == 1)
    out[k.thread_id()] = k.cluster.map_shared_rank(own, k.cluster.peer_rank())[k.thread_id()]


@pytest.mark.parametrize(
    "middle",
    [
        other_bytes,
        atomics_alone,
        a_place_that_nobody_knows,
        an_mbarrier_between,
        one_side_under_a_condition,
        the_side_of_each_cta,
        a_flag_that_is_polled,
    ],
    ids=lambda one: one.__name__,
)
def test_what_is_left_alone(middle):
    def program(k, own, out, n):
        k.cluster.sync()
        middle(k, own, out, n)
        k.cluster.sync()

    assert found(program) == []


@pytest.mark.parametrize("by_rank", [True, False])
@pytest.mark.parametrize("place", ["before", "between", "after"])
def test_a_barrier_that_some_ctas_skip_is_the_one_mistake(place, by_rank):
    """Where CTAs do not come to the same barriers, nothing is said of what these order."""

    def program(k, own, out, n):
        def skipped(here: str) -> None:
            if here == place:
                with k.if_(k.cluster.rank() == 0 if by_rank else k.block_id() < n):
                    k.barrier.sync()
                    k.cluster.sync()

        k.cluster.sync()
        skipped("before")
        own[k.thread_id()] = 1.0
        skipped("between")
        out[k.thread_id()] = k.cluster.map_shared_rank(own, k.cluster.peer_rank())[k.thread_id()]
        skipped("after")
        k.cluster.sync()

    assert found(program) == ["cluster.divergent"]


def test_atomics_of_peers_and_what_the_owner_reads():
    def program(k, own, out, n, kind):
        own[k.thread_id()] = 0.0
        k.cluster.sync()
        k.cluster.map_shared_rank(own + k.thread_id(), 0).atomic("add", 1.0)
        sync(k, kind)
        with k.if_(k.cluster.rank() == 0):
            out[k.thread_id()] = own[k.thread_id()]
        k.cluster.sync()

    assert found(lambda *given: program(*given, "cluster")) == []
    assert found(lambda *given: program(*given, "cta")) == [RACE]


BY_ROWS = {
    "store": lambda k, place: place.store(1.0, order="relaxed", scope="cluster"),
    "release": lambda k, place: place.store(1.0, order="release", scope="cluster"),
    "volatile store": lambda k, place: place.store(1.0, order="volatile"),
    "exchange": lambda k, place: k.atomic.exchange(place, 1.0, order="relaxed", scope="cluster"),
    "sum": lambda k, place: k.atomic.add(place, 1.0, order="acq_rel", scope="cluster"),
    "load": lambda k, place: place.load(order="relaxed", scope="cluster"),
    "volatile load": lambda k, place: place.load(order="volatile"),
}
"""Accesses that are rows of the catalogue, not loads and stores of LLVM's."""


@pytest.mark.parametrize("kind", ["cluster", "cta"])
@pytest.mark.parametrize("access", BY_ROWS)
def test_what_a_row_does_in_a_peers_memory(access, kind):
    """Beside what its owner stores or loads there: of the rank that is named, whichever it is."""

    def program(k, own, out, n, rank):
        k.cluster.sync()
        with k.if_(k.cluster.rank() == 1):
            BY_ROWS[access](k, k.cluster.map_shared_rank(own + k.thread_id(), rank))
        sync(k, kind)
        with k.if_(k.cluster.rank() == 2):
            if "load" in access:
                own[k.thread_id()] = 2.0
            else:
                out[k.thread_id()] = own[k.thread_id()]
        k.cluster.sync()

    for rank in (0, 2, 3):
        assert found(lambda *given, rank=rank: program(*given, rank), cluster=4) == [RACE] * (
            kind == "cta" and rank == 2
        ), rank


def test_the_fix_says_what_is_wrong():
    def program(k, own, out, n, kind):
        k.cluster.sync()
        own[k.thread_id()] = 1.0
        sync(k, kind)
        out[k.thread_id()] = k.cluster.map_shared_rank(own, k.cluster.peer_rank())[k.thread_id()]
        k.cluster.sync()

    texts = {}
    for kind in ("relaxed", "cta"):
        parameters = [Parameter("out", Pointer(f32, align=16)), Parameter("n", Scalar(i32))]
        k = KernelBuilder("exchange", "sm_90a", threads=128, cluster=2, parameters=parameters)
        program(k, k.shared(f32, 128), *k.arguments, kind)
        with pytest.raises(nvb.DiagnosticError) as raised:
            k.finish()
        texts[kind] = str(raised.value)
    assert "arrive with release: leave out relaxed=True" in texts["relaxed"]
    assert "put k.cluster.sync() between the two" in texts["cta"]


@pytest.mark.parametrize("known", [False, True])
def test_a_function_of_whose_numbers_nobody_knows(known):
    """As one that was copied: nothing is said of it."""
    k = KernelBuilder("exchange", "sm_90a", threads=128, cluster=2, parameters=[Parameter("out", Pointer(f32))])
    own = k.shared(f32, 128)
    k.cluster.sync()
    k.cluster.map_shared_rank(own, k.cluster.peer_rank())[k.thread_id()] = 1.0
    k.arguments[0][k.thread_id()] = own[k.thread_id()]
    k.return_()
    k.core.link()
    function = k.machine if known else copy.copy(k.machine)
    assert [one.rule_id for one in check_exchanges(function)] == [RACE] * known
