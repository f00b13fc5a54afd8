"""An mbarrier of the CTA of a rank: without a cluster it is the own one, in the own CTA's memory."""

from __future__ import annotations

import re

import pytest

import nvbackend as nvb


@pytest.mark.parametrize(("ctas", "space"), [(1, "shared::cta"), (2, "shared::cluster")])
def test_a_rank_names_a_peer_in_a_cluster_alone(ctas: int, space: str) -> None:
    @nvb.kernel("sm_90", threads=32, cluster=ctas)
    def kernel(k):
        barrier = k.mbarrier.array(1, arrivals=1)
        k.mbarrier.ready()
        k.cluster.sync()
        with k.one_thread():
            k.mbarrier.expect_tx(barrier, 16, rank=0)
            k.mbarrier.complete_tx(barrier, 16, rank=0)
            k.mbarrier.arrive(barrier, rank=0)
        k.cluster.sync()

    ptx = kernel.build(check=False).compile(assemble=False).ptx
    found = re.findall(r"mbarrier\.(expect_tx|complete_tx|arrive)\.(?:\w+\.)*?(shared(?:::\w+)?)\.b64", ptx)
    spelled = [(call, "shared::cta" if where == "shared" else where) for call, where in found]
    assert spelled == [(call, space) for call in ("expect_tx", "complete_tx", "arrive")]
