"""Clusters over whole kernels: pairs of arrive and wait, early ends, ranks; each mistake at its line."""

from __future__ import annotations

import inspect

import pytest

import nvbackend as nvb
from nvbackend import f16, i32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.row.types import u64
from nvbackend.signature import Parameter, Pointer, Scalar, TensorMap
from tests.support.rule_catalogue import rules_of

LAYOUT = nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64)
MARK = "# broken"


def builder(cluster=2, threads=256, target="sm_90a"):
    parameters = [Parameter("a", TensorMap(f16, (32, 64))), Parameter("n", Scalar(i32))]
    parameters.append(Parameter("p", Pointer(u64)))
    return KernelBuilder("kernel", target, threads=threads, cluster=cluster, parameters=parameters)


def found(program, **options):
    """The rules that it breaks, all of them at lines that are marked."""
    k = builder(**options)
    try:
        program(k, *k.arguments[:2])
        diagnostics = k.finish().diagnostics
    except nvb.DiagnosticError as error:
        diagnostics = error.diagnostics
    lines, first = inspect.getsourcelines(program)
    for one in diagnostics:
        assert one.location is not None
        assert MARK in lines[one.location.line - first], str(one)
    return [one.rule_id for one in diagnostics]


# -- kept -----------------------------------------------------------------------------------------------------------


def a_pair_with_work_between(k, a, n):
    k.cluster.arrive()
    with k.if_(n > 0):
        k.barrier.sync()
    k.cluster.wait()


def a_pair_in_each_round(k, a, n):
    with k.range(n):
        k.cluster.sync()
    k.cluster.arrive("relaxed")
    k.cluster.wait()


def the_whole_cluster_ends(k, a, n):
    k.return_if(k.cluster.id() >= n)
    k.cluster.sync()


def both_ends_behind_the_barrier(k, a, n):
    k.cluster.sync()
    k.return_if(k.thread_id() >= 128)


def under_a_condition_that_nobody_knows(k, a, n):
    with k.if_(n > 0):
        k.cluster.arrive()
    with k.if_(n > 0):
        k.cluster.wait()


def signalled(k, finish=True, sync=False):
    ring = k.pipeline(2, 1, a=LAYOUT, multicast=True)
    k.mbarrier.ready()
    a, n, _ = k.arguments
    with k.producer(registers=40):
        with k.range(n) as step, ring.fill() as stage:
            k.tma.load(stage.a, a, (0, step * 64), stage.full, multicast=True)
        if finish:
            ring.finish()
    with k.consumers(registers=232), k.range(n), ring.drain():
        pass  # broken
    if sync:
        k.cluster.sync()


def a_ring_that_is_finished(k, a, n):
    signalled(k)


def a_cluster_barrier_at_the_end(k, a, n):
    signalled(k, finish=False, sync=True)


def signals_waited_for_in_turn(k, a, n):
    done, phase = k.mbarrier.array(1, arrivals=1), k.var(0)
    k.mbarrier.ready()
    with k.range(n):
        k.mbarrier.arrive(done, rank=k.cluster.peer_rank(), when=k.thread_id() == 0)
        k.mbarrier.wait(done, phase)
        phase ^= 1


def a_multicast_that_all_wait_for(k, a, n):
    tile, full = k.shared_tiles(LAYOUT, 1).at(0), k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    with k.if_(k.thread_id() == 0):
        k.mbarrier.arrive(full, expect_tx=LAYOUT.bytes)
        k.tma.load(tile, a, (0, 0), full, multicast=True)
    k.mbarrier.wait(full, 0)


def a_multicast_of_one_cta_that_all_wait_for(k, a, n):
    tile, full = k.shared_tiles(LAYOUT, 1).at(0), k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    with k.if_(k.thread_id() == 0):
        k.mbarrier.arrive(full, expect_tx=1024)
        with k.if_(k.cluster.rank() == 0):
            k.bulk.load(tile.address, k.arguments[-1], 1024, full, multicast_mask=3)
    k.mbarrier.wait(full, 0)


def whole_clusters_go_by_a_multicast(k, a, n):
    tile, full = k.shared_tiles(LAYOUT, 1).at(0), k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    with k.if_(k.cluster.id() < n):
        with k.if_(k.thread_id() == 0):
            k.mbarrier.arrive(full, expect_tx=LAYOUT.bytes)
            k.tma.load(tile, a, (0, 0), full, multicast=True)
        k.mbarrier.wait(full, 0)


def multicasts_in_rounds_that_each_cta_counts(k, a, n):
    tile, full, phase = k.shared_tiles(LAYOUT, 1).at(0), k.mbarrier.array(1, arrivals=1), k.var(0)
    k.mbarrier.ready()
    with k.range(k.block_id(), n, k.block_count()):
        with k.if_(k.thread_id() == 0):
            k.mbarrier.arrive(full, expect_tx=LAYOUT.bytes)
            k.tma.load(tile, a, (0, 0), full, multicast=True)
        k.mbarrier.wait(full, phase)
        phase ^= 1
        k.barrier.sync()


def this_very_cta(k, a, n):
    k.cluster.map_to_peer(k.shared(u64, 1).bytes, 0)


KEPT = [
    a_pair_with_work_between,
    a_pair_in_each_round,
    the_whole_cluster_ends,
    both_ends_behind_the_barrier,
    under_a_condition_that_nobody_knows,
    a_ring_that_is_finished,
    a_cluster_barrier_at_the_end,
    signals_waited_for_in_turn,
    a_multicast_that_all_wait_for,
    a_multicast_of_one_cta_that_all_wait_for,
    whole_clusters_go_by_a_multicast,
    multicasts_in_rounds_that_each_cta_counts,
    this_very_cta,
]


@pytest.mark.parametrize("program", KEPT, ids=lambda one: one.__name__)
def test_right_programs_raise_no_alarm(program):
    assert found(program) == []


# -- broken ---------------------------------------------------------------------------------------------------------


def arrived_twice(k, a, n):
    k.cluster.arrive()
    k.cluster.arrive()  # broken
    k.cluster.wait()


def arrived_in_each_round(k, a, n):
    with k.range(n):
        k.cluster.arrive()  # broken
    k.cluster.sync()  # broken


def waited_for_nothing(k, a, n):
    k.cluster.wait()  # broken


def waited_twice(k, a, n):
    k.cluster.sync()
    k.cluster.wait()  # broken


def never_waited_for(k, a, n):
    k.cluster.arrive()  # broken


def a_ring_that_is_not_finished(k, a, n):
    ring = k.pipeline(2, 1, a=LAYOUT, multicast=True)
    k.mbarrier.ready()
    with k.producer(registers=40), k.range(n) as step, ring.fill() as stage:
        k.tma.load(stage.a, a, (0, step * 64), stage.full, multicast=True)
    with k.consumers(registers=232), k.range(n), ring.drain():  # broken
        pass


def a_peer_signalled_at_the_end(k, a, n):
    done = k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    k.mbarrier.arrive(done, rank=k.cluster.peer_rank(), when=k.thread_id() == 0)  # broken


def a_peer_signalled_twice_at_the_end(k, a, n):
    done = k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    k.mbarrier.arrive(done, rank=k.cluster.peer_rank(), when=k.thread_id() == 0)  # broken
    with k.if_(n > 0):
        k.mbarrier.arrive(done, rank=k.cluster.peer_rank(), when=k.thread_id() == 0)  # broken


def a_later_multicast_that_nobody_waits_for(k, a, n):
    tile, full = k.shared_tiles(LAYOUT, 1).at(0), k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    with k.if_(k.thread_id() == 0):
        k.mbarrier.arrive(full, expect_tx=LAYOUT.bytes)
        k.tma.load(tile, a, (0, 0), full, multicast=True)
    k.mbarrier.wait(full, 0)
    with k.if_((k.cluster.id() < n) & (k.thread_id() == 0)):
        k.mbarrier.arrive(full, expect_tx=LAYOUT.bytes)
        k.tma.load(tile, a, (0, 0), full, multicast=True)  # broken


def a_multicast_that_one_cta_waits_for(k, a, n):
    tile, full = k.shared_tiles(LAYOUT, 1).at(0), k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    with k.if_(k.thread_id() == 0):
        k.mbarrier.arrive(full, expect_tx=LAYOUT.bytes)
        k.tma.load(tile, a, (0, 0), full, multicast=True)  # broken
    with k.if_(k.cluster.rank() == 0):
        k.mbarrier.wait(full, 0)


def a_cta_that_returns_before_the_bytes_of_its_peer(k, a, n):
    tile, full = k.shared_tiles(LAYOUT, 1).at(0), k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    k.return_if(k.block_id() >= n)
    with k.if_(k.thread_id() == 0):
        k.mbarrier.arrive(full, expect_tx=LAYOUT.bytes)
        k.tma.load(tile, a, (0, 0), full, multicast=True)  # broken
    k.mbarrier.wait(full, 0)


def a_rank_past_the_last(k, a, n):
    k.cluster.map_to_peer(k.shared(u64, 1).bytes, 2)  # broken


def peers_without_a_cluster(k, a, n):
    k.cluster.map_to_peer(k.shared(u64, 1).bytes, n)  # broken


def a_pair_of_three(k, a, n):
    k.cluster.peer_rank()  # broken


def a_scope_that_there_is_not(k, a, n):
    k.cluster.sync(scope="gpu")  # broken


def a_load_before_the_peer_has_started(k, a, n):
    peer = k.cluster.map_shared_rank(k.shared(u64, 1), k.cluster.peer_rank())
    with k.if_(n > 0):
        k.arguments[2][0] = peer[0]  # broken
    k.cluster.sync()


def a_store_after_the_peer_has_ended(k, a, n):
    peer = k.cluster.map_shared_rank(k.shared(u64, 1), k.cluster.peer_rank())
    k.cluster.sync()
    with k.if_(n > 0):
        peer[0] = 1  # broken
        k.return_()
    k.cluster.sync()


def a_read_after_a_barrier_of_one_cta(k, a, n):
    own = k.shared(u64, 256)
    k.cluster.sync()
    own[k.thread_id()] = 1
    k.barrier.sync()
    k.arguments[2][0] = k.cluster.map_shared_rank(own, k.cluster.peer_rank())[k.thread_id()]  # broken
    k.cluster.sync()


def what_one_cta_does_beside_it(k, a, n):
    own = k.shared(u64, 256)
    k.cluster.sync()
    own[k.thread_id()] = 1
    with k.if_(k.cluster.rank() == 0):
        k.fence.thread()
    k.barrier.sync()
    k.arguments[2][0] = k.cluster.map_shared_rank(own, k.cluster.peer_rank())[k.thread_id()]  # broken
    k.cluster.sync()


def a_read_of_a_peer_at_a_parameter(k, a, n):
    own, thread = k.shared(u64, 256), k.thread_id()
    k.cluster.sync()
    with k.if_(thread < 128):
        own[n + thread] = 1
    k.barrier.sync()
    with k.if_(thread < 128):
        k.arguments[2][0] = k.cluster.map_shared_rank(own, k.cluster.peer_rank())[n + thread]  # broken
    k.cluster.sync()


def reads_of_a_peer_in_rounds(k, a, n):
    own = k.shared(u64, 512)
    k.cluster.sync()
    peer = k.cluster.map_shared_rank(own, k.cluster.peer_rank())
    with k.range(2) as i:
        own[i * 256 + k.thread_id()] = 1
        k.barrier.sync()
        k.arguments[2][0] = peer[i * 256 + k.thread_id()]  # broken
    k.cluster.sync()


BROKEN = [
    ("cluster.missing-barrier", what_one_cta_does_beside_it, 2),
    ("cluster.missing-barrier", a_read_of_a_peer_at_a_parameter, 2),
    ("cluster.missing-barrier", reads_of_a_peer_in_rounds, 2),
    ("cluster.missing-barrier", a_read_after_a_barrier_of_one_cta, 2),
    ("cluster.access-before-start", a_load_before_the_peer_has_started, 2),
    ("cluster.exit-before-access", a_store_after_the_peer_has_ended, 2),
    ("cluster.arrived-twice", arrived_twice, 2),
    ("cluster.wait-alone", waited_for_nothing, 2),
    ("cluster.wait-alone", waited_twice, 2),
    ("cluster.arrive-alone", never_waited_for, 2),
    ("cluster.exit-before-peers", a_ring_that_is_not_finished, 2),
    ("cluster.exit-before-peers", a_peer_signalled_at_the_end, 2),
    ("cluster.exit-before-peers", a_peer_signalled_twice_at_the_end, 2),
    ("cluster.exit-before-peers", a_later_multicast_that_nobody_waits_for, 2),
    ("cluster.exit-before-peers", a_multicast_that_one_cta_waits_for, 2),
    ("cluster.exit-before-peers", a_cta_that_returns_before_the_bytes_of_its_peer, 2),
    ("cluster.rank", a_rank_past_the_last, 2),
    ("cluster.no-peer", peers_without_a_cluster, 1),
    ("cluster.no-peer", a_pair_of_three, 3),
    ("cluster.scope", a_scope_that_there_is_not, 2),
]


@pytest.mark.parametrize(("rule", "program", "cluster"), BROKEN, ids=[one[1].__name__ for one in BROKEN])
def test_each_mistake_is_found_at_its_line_and_nothing_else(rule, program, cluster):
    assert found(program, cluster=cluster) == [rule]


def test_a_loop_that_arrives_meets_itself():
    assert set(found(arrived_in_each_round)) == {"cluster.arrived-twice"}


def test_every_rule_has_a_program_that_breaks_it():
    assert {rule.id for rule in rules_of("isel.protocols.cluster.rules")} == {rule for rule, _, _ in BROKEN}


# -- the gate -------------------------------------------------------------------------------------------------------


def opcodes(k):
    k.finish()
    return [one.opcode for one in k.machine.instructions() if one.row is not None]


@pytest.mark.parametrize(
    ("target", "cluster", "scope", "wanted"),
    [
        ("sm_90a", 2, "cluster", ["barrier.cluster.arrive", "barrier.cluster.wait"]),
        ("sm_90a", 2, "cta", ["bar.sync"]),
        ("sm_90a", 1, "cluster", ["bar.sync"]),
        ("sm_80", 1, "cluster", ["bar.sync"]),
    ],
)
def test_a_cluster_barrier_where_there_is_a_cluster(target, cluster, scope, wanted):
    k = builder(cluster, target=target) if target == "sm_90a" else KernelBuilder("kernel", target, threads=256)
    k.cluster.sync(scope=scope)
    assert opcodes(k) == wanted


@pytest.mark.parametrize(("target", "fences"), [("sm_80", 0), ("sm_90", 1)])
def test_barriers_are_ready_on_chips_before_the_fence(target, fences):
    k = KernelBuilder("kernel", target, threads=256)
    done = k.mbarrier.array(1, arrivals=256)
    k.mbarrier.ready()
    k.mbarrier.arrive(done)
    text = k.finish().compile(assemble=False).ptx
    assert text.count("fence.mbarrier_init") == fences
    assert "bar.sync" in text


def test_the_peer_of_a_pair():
    k = builder(4)
    k.shared(i32, 1)[0] = k.cluster.peer_rank()
    text = k.finish().compile(assemble=False).ptx
    assert "%cluster_ctarank" in text
    assert "xor.b32" in text
