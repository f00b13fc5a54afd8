"""Kernels with an instruction that needs a cluster are launched in clusters of one CTA, and no others are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import u32
from nvbackend.isel.machine.clusters import needs_cluster
from tests.support.clusters_of_one import LANES, SENDS, send
from tests.support.ptxas import assemble

ONE = ".explicitcluster\n.reqnctapercluster 1, 1, 1\n"
PARAMETERS = [nvb.Parameter("out", nvb.Pointer(u32))]


def compiled(body: Any, **options: Any) -> nvb.CompiledKernel:
    k = nvb.KernelBuilder("k", "sm_90a", threads=LANES, parameters=PARAMETERS, **options)
    body(k, *k.arguments)
    return k.compile(assemble=False, cache=nvb.Cache.disabled())


def arrives(kernel: nvb.CompiledKernel) -> bool:
    """Whether the simulator, in which a launch without a cluster fails, runs it."""
    out = np.zeros(LANES, np.uint32)
    nvb.runtime.load(kernel, device="simulator").launch(1, out)
    return np.array_equal(out, 3 * np.arange(LANES))


@pytest.mark.parametrize("opcode", SENDS)
def test_each_instruction_is_in_a_cluster_of_one(opcode: str) -> None:
    kernel = compiled(lambda k, out: send(k, opcode, out))
    assert ONE in kernel.ptx
    assert kernel.ptx.count("reqnctapercluster") == 1
    assert kernel.signature.bounds.cluster == 1
    taken, said = assemble(kernel.ptx, "sm_90a")
    assert taken, said
    assert arrives(kernel)


@pytest.mark.parametrize("opcode", SENDS)
def test_a_cluster_that_was_asked_for_stays(opcode: str) -> None:
    ptx = compiled(lambda k, out: send(k, opcode, out), cluster=2).ptx
    assert ".reqnctapercluster 2, 1, 1" in ptx
    assert ptx.count("reqnctapercluster") == 1


def _all_that_works_without(k: Any, out: Any) -> None:
    """Loads, stores, atomics, arrivals and copies that name shared memory of the cluster (measured on an H200)."""
    shared, box = k.shared(u32, LANES, align=128), k.shared(u32, LANES, align=128)
    barrier, lane = k.mbarrier.array(1, 1), k.thread_id()
    shared[lane] = 0
    k.mbarrier.ready()
    own = k.cluster.map_shared_rank(shared, 0)
    (own + lane).atomic("add", 1)
    own[lane] = own[lane] + 1
    with k.if_(lane == 0):
        k.mbarrier.arrive(barrier, expect_tx=4 * LANES)
        k.bulk.load(box, out, 4 * LANES, barrier)
    k.mbarrier.wait(barrier, 0)
    out[lane] = shared[lane] + box[lane]


@pytest.mark.parametrize("body", [lambda k, out: out.__setitem__(k.thread_id(), 1), _all_that_works_without])
def test_no_other_kernel_is(body: Any) -> None:
    k = nvb.KernelBuilder("k", "sm_90a", threads=LANES, parameters=[nvb.Parameter("out", nvb.Pointer(u32, align=16))])
    body(k, *k.arguments)
    ptx = k.finish(check=False).compile(assemble=False, cache=nvb.Cache.disabled()).ptx
    assert "cluster" in ptx or body is not _all_that_works_without
    assert ".explicitcluster" not in ptx
    assert "reqnctapercluster" not in ptx


@pytest.mark.parametrize("inline", [True, False])
def test_a_function_that_is_called_counts(inline: bool) -> None:
    """Its body is among the kernel's instructions, whether LLVM sees it there or a call."""

    @nvb.function(inline=inline)
    def sent(
        k, to: nvb.Pointer(u32, space="shared", align=128), barrier: nvb.Pointer(nvb.u64, space="shared", align=8)
    ):
        lane = k.thread_id()
        k.async_store.store(to + lane, (lane * 3).to(u32), barrier, 0)

    def body(k: Any, out: Any) -> None:
        to, barrier, lane = k.shared(u32, LANES, align=128), k.mbarrier.array(1, 1), k.thread_id()
        k.mbarrier.ready()
        with k.if_(lane == 0):
            k.mbarrier.arrive(barrier, expect_tx=4 * LANES)
        k.barrier.sync()
        sent(k, to, barrier)
        k.mbarrier.wait(barrier, 0)
        out[lane] = to[lane]

    kernel = compiled(body)
    assert needs_cluster(kernel.machine)
    assert (".func" in kernel.ptx) is not inline
    assert ONE in kernel.ptx
    assert arrives(kernel)


@pytest.mark.parametrize("opcode", [None, *SENDS])
def test_the_dry_run_knows_that_it_is_explicit(opcode: str | None) -> None:
    """A wait for an arrival that only a kernel in clusters makes."""

    def body(k: Any, out: Any) -> None:
        if opcode is not None:
            send(k, opcode, out)
        waited = k.mbarrier.array(1, 1, name="waited")
        k.mbarrier.ready()
        with k.if_(k.special_register("is_explicit_cluster") & (k.thread_id() == 0)):
            k.mbarrier.arrive(waited)
        k.mbarrier.wait(waited, 0)

    if opcode is not None:
        assert arrives(compiled(body))
        return
    with pytest.raises(nvb.DiagnosticError) as caught:
        compiled(body)
    assert "waited" in caught.value.diagnostics[0].message


SHARED = nvb.Pointer(nvb.u32, space="shared", align=16)


def stores_in_the_cluster(k, to: SHARED, barrier: nvb.Pointer(nvb.u64, space="shared", align=8)):
    k.async_store.store(to, to[0], barrier, 0)


def copies_in_the_cluster(k, to: SHARED, barrier: nvb.Pointer(nvb.u64, space="shared", align=8)):
    k.bulk.store(to, to, 16, rank=0, barrier=barrier)


def loads_from_the_cluster(k, to: SHARED):
    to[0] = k.cluster.map_shared_rank(to, 0)[0]


@pytest.mark.parametrize(
    ("body", "needs"), [(stores_in_the_cluster, 1), (copies_in_the_cluster, 1), (loads_from_the_cluster, 0)]
)
def test_that_the_caller_must_be_in_a_cluster(body, needs) -> None:
    compiled = nvb.function(body).compile("sm_90")
    assert sum("is launched in clusters, if only of one CTA" in each for each in compiled.unknown) == needs
    assert compiled.c_header().count("is launched in clusters") == needs
