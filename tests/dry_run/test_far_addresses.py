"""Addresses of shared memory beyond the CTAs of the cluster, whose bits name a CTA that there is not."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import i32
from tests.dry_run.refusals import refusals

DATA = nvb.Pointer[i32]
WORDS, BITS_OF_OFFSET = 256, 24
CLUSTERS = [1, 4]


def read_far(k, out: DATA, n: i32, *, apart: bool):
    """Reads the word 8 * n * n, or each thread one of its own from there on."""
    words, thread = k.shared(i32, WORDS, name="words"), k.thread_id()
    k.mbarrier.array(1, arrivals=1)
    words[thread] = thread
    k.barrier.sync()
    out[thread] = words[8 * n * n + n * n * thread if apart else 8 * n * n]


def arrive_far(k, n: i32):
    full = k.mbarrier.array(1, arrivals=128, name="full")
    k.mbarrier.ready()
    k.mbarrier.arrive(full + n)


def arrive_at(k, n: i32):
    """Right for each rank that a cluster has."""
    full = k.mbarrier.array(1, arrivals=128, name="full")
    k.cluster.sync()
    k.mbarrier.arrive(full + 0, rank=n)
    k.cluster.sync()


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("n", [4096, 8192])
def test_a_word_far_beyond_is_named_by_its_byte(cluster: int, apart: bool, n: int) -> None:
    read = [4 * n * n * (8 + lane * apart) for lane in range(32)]
    assert read[0] >> BITS_OF_OFFSET >= cluster
    assert read[0] % (1 << BITS_OF_OFFSET) == 0
    kernel = nvb.kernel("sm_90a", threads=WORDS, cluster=cluster)(read_far)
    with pytest.raises(nvb.DiagnosticError, match=r"shared\.bounds") as caught:
        kernel.build(apart=apart, check=[{"n": n}])
    assert f"byte {np.array(read).astype(np.int32).min()} of" in str(caught.value)


@pytest.mark.parametrize("n", [1 << 21, -5])
def test_so_is_an_mbarrier(n: int) -> None:
    kernel = nvb.kernel("sm_90a", threads=128)(arrive_far)
    with pytest.raises(nvb.DiagnosticError, match=r"shared\.bounds") as caught:
        kernel.build(check=[{"n": n}])
    assert f"byte {8 * n} of" in str(caught.value)


def test_an_mbarrier_far_beyond_may_be_a_peers() -> None:
    """Nothing is said of it: of which rank it is, a parameter says."""
    kernel = nvb.kernel("sm_90a", threads=128, cluster=4)(arrive_far)
    assert kernel.build(check=[{"n": 1 << 21}]).diagnostics == ()


def test_numbers_that_a_run_chooses_stay_near() -> None:
    """The word 0 alone is there for all of n, and a rank is one of four."""
    assert refusals(nvb.kernel("sm_90a", threads=WORDS, cluster=4)(read_far), apart=False) == []
    assert refusals(nvb.kernel("sm_90a", threads=128, cluster=4)(arrive_at)) == []
