"""Clusters over whole kernels: pairs of arrive and wait, early ends, ranks; each mistake at its line."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f16, i32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.row.types import u32, u64
from nvbackend.signature import Parameter, Pointer, Scalar, TensorMap
from tests.rules.programs.cluster import arrived_in_each_round
from tests.rules.registry import right, wrong
from tests.support.rule_catalogue import rules_of
from tests.support.runtime import rules


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
    for one in diagnostics:
        assert one.location is not None
        assert one.location.line in program.marked, str(one)
    return [one.rule_id for one in diagnostics]


@pytest.mark.parametrize("program", right("cluster"), ids=lambda one: one.name)
def test_right_programs_raise_no_alarm(program):
    assert found(program) == []


@pytest.mark.parametrize("program", wrong("cluster"), ids=lambda one: one.name)
def test_each_mistake_is_found_at_its_line_and_nothing_else(program):
    """A loop that arrives meets itself, at both of its calls."""
    rules = found(program, **program.bounds)
    assert (set(rules) if program is arrived_in_each_round else rules) in ([program.rule], {program.rule})


def test_every_rule_has_a_program_that_breaks_it():
    assert {rule.id for rule in rules_of("isel.protocols.cluster.rules")} == {one.rule for one in wrong("cluster")}


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
    """The two CTAs of a pair have each other's ranks, in every pair of a cluster."""

    @nvb.kernel("sm_90a", threads=32, cluster=4)
    def peers(k, out: nvb.Pointer[i32]):
        with k.one_thread():
            out[k.block_id()] = k.cluster.peer_rank()

    compiled = peers.compile(assemble=False)
    assert "%cluster_ctarank" in compiled.ptx
    found = np.full(8, 9, np.int32)
    nvb.runtime.load(compiled, device="simulator").launch(8, found)
    assert found.tolist() == [1, 0, 3, 2] * 2


@pytest.mark.parametrize(
    ("steps", "early"),
    [("fill signal wait", False), ("signal fill wait", False), ("fill wait signal", True), ("signal fill", True)],
)
def test_a_wait_is_for_the_signals_that_it_comes_after(steps, early):
    """In straight code: the wait ends when the peer has signalled, so it says of no later signal that it has come."""
    k = builder(threads=32)
    full = k.mbarrier.array(1, arrivals=32)
    k.mbarrier.ready()
    for step in steps.split():
        match step:
            case "fill":
                k.mbarrier.arrive(full, expect_tx=0)
            case "signal":
                k.mbarrier.arrive(full, rank=k.cluster.peer_rank())
            case "wait":
                k.mbarrier.wait(full, 0)
    assert ("cluster.exit-before-peers" in rules(k.finish)) is early


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("meets", [False, True])
def test_peers_that_meet_after_a_multicast_of_all_threads(meets, apart):
    """Each of them copies a part, in the block that meets the peers, or in one before it."""

    def kernel(k, x: nvb.Pointer(u32, 16)):
        full, tile = k.mbarrier.array(1, arrivals=1), k.shared(u32, 128, align=128)
        k.mbarrier.ready()
        k.mbarrier.arrive(full, expect_tx=2 * 512, when=k.thread_id() == 0)
        k.bulk.load(tile + k.thread_id() * 4, x, 16, full, multicast_mask=0b11)
        if apart:
            with k.if_(k.thread_id() == 0):
                x[0] = 1
        if meets:
            k.cluster.sync()
        with k.if_(k.block_id() > 2):
            k.mbarrier.wait(full, 0)

    assert rules(nvb.kernel("sm_90a", threads=32, cluster=2)(kernel).build) == ["cluster.exit-before-peers"] * (
        not meets
    )
