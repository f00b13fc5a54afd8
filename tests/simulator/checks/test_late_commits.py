"""tcgen05.commit arrives in the peer when it likes: a barrier of the cluster does not wait for it."""

from __future__ import annotations

import numpy as np

import nvbackend as nvb
from nvbackend import f16, f32, i32

SEEDS = 4
MMA = nvb.tcgen05.mma("m128n64k16", f16, f16, f32)


def kernel(end):
    """CTA 0 multiplies and commits in both CTAs, which go on by `end`."""

    @nvb.kernel("sm_100a", threads=128, cluster=2)
    def committed(k, out: nvb.Pointer[i32]):
        mma = k.tiled_mma(MMA)
        a, b = k.shared_tile(mma.smem_a(64)), k.shared_tile(mma.smem_b(64))
        done, own = k.mbarrier.array(1, arrivals=1, name="done"), k.mbarrier.array(1, arrivals=1, name="own")
        k.mbarrier.ready()
        for tile in (a, b):
            with k.range(k.thread_id(), tile.layout.bytes // 4, 128) as i:
                tile.address.cast(i32)[i] = 0
        k.fence.proxy_async()
        k.cluster.sync()
        with k.tcgen05.tmem(64) as tmem:
            with k.one_thread(), k.if_(k.cluster.rank() == 0):
                mma.accumulate(tmem, a, b, accumulate=False)
                k.tcgen05.commit(own)
                k.tcgen05.commit(done, multicast_mask=3)
            with k.if_(k.cluster.rank() == 0):
                k.mbarrier.wait(own, 0)
            if end == "waits":
                k.mbarrier.wait(done, 0)
        if end == "meets":
            k.cluster.sync()
        out[k.thread_id()] = 1

    return committed


def said(end, seed):
    compiled = kernel(end).compile(cache=nvb.Cache.disabled(), assemble=False, check=False)
    try:
        nvb.runtime.load(compiled, device="simulator", seed=seed).launch(2, np.zeros(128, np.int32))
    except nvb.DiagnosticError as error:
        return error.diagnostics[0]
    return None


def test_a_barrier_of_the_cluster_is_no_fix_of_a_commit_that_comes_late():
    found = [one for seed in range(SEEDS) if (one := said("meets", seed)) is not None]
    assert {one.rule_id for one in found} == {"cluster.exit-before-peers"}
    for one in found:
        assert "k.mbarrier.wait" in one.fix
        assert "k.cluster.sync() in all threads" not in one.fix
    assert [said("waits", seed) for seed in range(SEEDS)] == [None] * SEEDS
