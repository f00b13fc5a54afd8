"""The CTA whose mbarrier a copy completes on: its destination's own, or its pair's, as far as the ranks are known."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import nvbackend as nvb
from nvbackend import f16, i32, u32, u64
from nvbackend.intrinsics import spellings

TILE = nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64)
MATRIX = nvb.TensorMap(f16, box=(64, 64))


def rules_of(function: Callable[..., None], target: str, cluster: int) -> list[str]:
    try:
        found = nvb.kernel(target, threads=64, cluster=cluster)(function).build().diagnostics
    except nvb.DiagnosticError as error:
        found = error.diagnostics
    return [one.rule_id for one in found]


@pytest.mark.parametrize(
    ("cluster", "group", "rank", "found"),
    [
        (2, None, lambda k, n: 0, ["tma.barrier-cta"]),
        (2, 1, lambda k, n: 1, ["tma.barrier-cta"]),
        (2, None, lambda k, n: k.cluster.peer_rank(), ["tma.barrier-cta"]),
        (2, None, lambda k, n: k.cluster.rank(), []),
        (2, None, lambda k, n: n, []),
        (2, 2, lambda k, n: 0, []),
        (2, 2, lambda k, n: k.cluster.peer_rank(), []),
        (4, 2, lambda k, n: 0, ["tma.barrier-cta"]),
        (4, 2, lambda k, n: k.cluster.rank() & 2, []),
        (4, 2, lambda k, n: k.cluster.rank() ^ 2, ["tma.barrier-cta"]),
    ],
)
def test_a_box_completes_on_a_barrier_of_its_own_cta_or_pair(cluster, group, rank, found):
    def kernel(k, a: MATRIX, n: i32):
        tile, full = k.shared_tile(TILE), k.mbarrier.array(1, arrivals=1, name="full")
        k.mbarrier.ready()
        other = k.shared_address(k.cluster.map_to_peer(full.bytes, rank(k, n)), u64, 8)
        with k.one_thread():
            k.mbarrier.arrive(full, rank=n, expect_tx=8192)
            k.tma.load_box(tile.address, a, (0, 0), other, cta_group=group)
        k.cluster.sync()

    assert rules_of(kernel, "sm_100a", cluster) == found


@pytest.mark.parametrize(
    ("rank", "found"),
    [
        (lambda k: 0, ["tma.barrier-cta"]),
        (lambda k: k.cluster.peer_rank(), ["tma.barrier-cta"]),
        (lambda k: k.cluster.rank(), []),
    ],
)
def test_a_box_for_a_peer_does_not_complete_on_the_own_barrier(rank, found):
    def kernel(k, a: MATRIX):
        tile, full = k.shared_tile(TILE), k.mbarrier.array(1, arrivals=1, name="full")
        k.mbarrier.ready()
        there = k.shared_address(k.cluster.map_to_peer(tile.address.bytes, rank(k)), f16, 1024)
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=8192)
            k.tma.load_box(there, a, (0, 0), full)
        k.cluster.sync()

    assert [one for one in rules_of(kernel, "sm_90a", 2) if one == "tma.barrier-cta"] == found


BY_GENERIC_ADDRESSES = next(
    row for row in spellings.rows() if row.ptx == "st.async.weak.mbarrier::complete_tx::bytes.u32"
)


@pytest.mark.parametrize("barrier", [0, 1, "own", "peer"])
@pytest.mark.parametrize("destination", [0, 1, "own", "peer"])
def test_a_store_by_generic_addresses_completes_in_the_cta_that_it_writes_to(destination, barrier):
    def kernel(k):
        ranks = {"own": k.cluster.rank(), "peer": k.cluster.peer_rank(), 0: 0, 1: 1}
        words, full = k.shared(u32, 32), k.mbarrier.array(1, arrivals=1)
        k.mbarrier.ready()
        there = k.shared_address(k.cluster.map_to_peer(words.bytes, ranks[destination]), u32, 4)
        counted = k.shared_address(k.cluster.map_to_peer(full.bytes, ranks[barrier]), u64, 8)
        with k.one_thread():
            k.instruction(BY_GENERIC_ADDRESSES, destination=there, values=[k.const(3, u32)], barrier=counted)
        k.cluster.sync()

    found = [one for one in rules_of(kernel, "sm_90a", 2) if one == "tma.barrier-cta"]
    assert found == ([] if destination == barrier else ["tma.barrier-cta"])


@pytest.mark.parametrize("known", ["destination", "barrier"])
def test_of_a_rank_that_is_not_known_nothing_is_said(known):
    def kernel(k, a: MATRIX, n: i32):
        tile, full = k.shared_tile(TILE), k.mbarrier.array(1, arrivals=1, name="full")
        k.mbarrier.ready()
        ranks = {"destination": n, "barrier": n, known: 0}
        there = k.shared_address(k.cluster.map_to_peer(tile.address.bytes, ranks["destination"]), f16, 1024)
        barrier = k.shared_address(k.cluster.map_to_peer(full.bytes, ranks["barrier"]), u64, 8)
        with k.one_thread():
            k.tma.load_box(there, a, (0, 0), barrier)
        k.cluster.sync()

    assert "tma.barrier-cta" not in rules_of(kernel, "sm_100a", 2)
