"""A relaxed barrier of the cluster between two accesses orders them after a fence alone: PTX ISA 9.7.13.3."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import Pointer, i32, u32
from nvbackend.simulator import Simulator
from tests.support import runtime


@nvb.kernel("sm_90", threads=64, cluster=2)
def counts(k, x: Pointer[i32], out: Pointer[u32], *, relaxed, fences, again, writes):
    """Each thread adds to a bin of the peer, by its number in memory; the peer reads its own."""
    bins, thread = k.shared(u32, 64, name="bins"), k.thread_id()
    bins[thread] = 0
    k.cluster.sync()
    there = k.cluster.map_shared_rank(bins, k.cluster.peer_rank()) + (x[thread] & 63)
    if writes:
        there[0] = 1
    else:
        k.atomic.reduce(there, "add", 1, scope="cluster")
    if fences:
        k.fence.thread(scope="cluster")
    k.cluster.sync(relaxed=relaxed)
    if again:
        k.barrier.sync()
    out[k.cluster.rank() * 64 + thread] = bins[63 - thread]
    k.cluster.sync()


@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize(
    ("relaxed", "fences", "again", "wrong"),
    [(True, False, False, True), (True, False, True, True), (True, True, False, False), (False, False, False, False)],
)
def test_what_a_relaxed_barrier_does_not_order(relaxed, fences, again, writes, wrong) -> None:
    compiled = counts.compile(
        relaxed=relaxed, fences=fences, again=again, writes=writes, check=False, assemble=False
    )  # fmt: skip
    x, out = np.arange(64, dtype=np.int32), np.zeros(128, np.uint32)
    module = nvb.runtime.load(compiled, device="simulator")
    if not wrong:
        module.launch(2, x, out)
        assert (out == 1).all()
        return
    with pytest.raises(nvb.DiagnosticError) as caught:
        module.launch(2, x, out)
    (found,) = caught.value.diagnostics
    assert found.rule_id == "simulator.relaxed-barrier"
    assert "by a warp of CTA" in found.message and "barrier.cluster.arrive.relaxed" in found.message


def test_a_later_write_is_not_put_down_to_an_earlier_barrier() -> None:
    @nvb.kernel("sm_90", threads=64, cluster=2)
    def late(k, out: Pointer[u32]):
        bins, thread = k.shared(u32, 64, name="bins"), k.thread_id()
        bins[thread] = 0
        k.barrier.sync()
        k.cluster.sync(relaxed=True)
        bins[thread] = 1
        out[thread] = bins[out[thread].to(i32) & 63]
        k.cluster.sync()

    module = nvb.runtime.load(late.compile(check=False, assemble=False), device="simulator")
    with pytest.raises(nvb.DiagnosticError, match=r"shared\.missing-barrier|shared\.overwritten-early"):
        module.launch(2, np.zeros(64, np.uint32))


@pytest.mark.parametrize(("cluster", "scope", "wrong"), [(1, "cta", False), (2, "cta", True), (2, "cluster", False)])
def test_a_fence_before_a_relaxed_barrier_needs_a_scope_with_the_cluster(cluster: int, scope: str, wrong: bool) -> None:
    text = f""".version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 data)
{{
.reg .b32 %r<6>; .reg .b64 %rd<4>;
ld.param.u64 %rd0, [data]; mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mad.lo.u32 %r0, %r1, 64, %r0;
mul.wide.u32 %rd1, %r0, 4; add.u64 %rd1, %rd0, %rd1; st.global.u32 [%rd1], %r0;
fence.acq_rel.{scope}; barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned;
sub.u32 %r2, {64 * cluster - 1}, %r0; mul.wide.u32 %rd2, %r2, 4; add.u64 %rd2, %rd0, %rd2;
ld.global.u32 %r3, [%rd2]; st.global.u32 [%rd1+1024], %r3; ret;
}}
"""
    data = np.zeros(512, np.uint32)
    shape = {"grid": (cluster, 1, 1), "block": (64, 1, 1), "cluster": (cluster, 1, 1)}
    found = runtime.rules(lambda: Simulator().load(text).launch("k", **shape, args=[data]))
    assert found == (["simulator.relaxed-barrier"] if wrong else [])
