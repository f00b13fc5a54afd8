"""Where each operand of the newer general rows goes, traced through the PTX back to what it came from.

The expected operand lists are written from the PTX ISA's syntax, not from the rows.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nvbackend.intrinsics.copy import async_store, cache_control, cp_async, matrix_move, tensormap, tma_bulk, tma_tensor
from nvbackend.intrinsics.row.row import NoSuchRow, Row
from nvbackend.intrinsics.sync import barriers as sync
from nvbackend.intrinsics.sync import mbarrier_phases, warp
from tests.intrinsics.row.test_rows_operands import instruction
from tests.support.rows import compile_rows, lowest_target

BULK = "mbarrier::complete_tx::bytes"
BOX = "[tensor_map, {coordinates0, coordinates1}]"
CUBE = "[tensor_map, {coordinates0, coordinates1, coordinates2}]"
ROWS = "[tensor_map, {coordinates0, coordinates1, coordinates2, coordinates3, coordinates4}]"
EXPECTED: list[tuple[Row, str]] = [
    (
        tma_tensor.load_tensor(2, "tile::gather4", "cta", cache_hint=True),
        (
            f"cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.{BULK}.L2::cache_hint "
            f"[destination], {ROWS}, [barrier], cache_policy"
        ),
    ),
    (
        tma_tensor.load_tensor(3, "im2col::w", multicast=True, cta_group=2, cache_hint=True),
        (
            f"cp.async.bulk.tensor.3d.shared::cluster.global.im2col::w.{BULK}.multicast::cluster.cta_group::2"
            f".L2::cache_hint [destination], {CUBE}, [barrier], {{offsets0, offsets1}}, multicast_mask, cache_policy"
        ),
    ),
    (
        tma_tensor.load_tensor(3, "im2col", "cta", cta_group=1),
        (
            f"cp.async.bulk.tensor.3d.shared::cta.global.im2col.{BULK}.cta_group::1 "
            f"[destination], {CUBE}, [barrier], {{offsets}}"
        ),
    ),
    (
        tma_tensor.store_tensor(2, "tile::scatter4"),
        f"cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group {ROWS}, [source]",
    ),
    (
        tma_tensor.reduce_tensor(2, "min", cache_hint=True),
        (
            "cp.reduce.async.bulk.tensor.2d.global.shared::cta.min.tile.bulk_group.L2::cache_hint "
            f"{BOX}, [source], cache_policy"
        ),
    ),
    (
        tma_bulk.store_bulk(cache_hint=True, byte_mask=True),
        (
            "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.cp_mask "
            "[destination], [source], bytes, cache_policy, byte_mask"
        ),
    ),
    (
        tma_bulk.reduce_bulk("cluster", "add", "u64"),
        f"cp.reduce.async.bulk.shared::cluster.shared::cta.{BULK}.add.u64 [destination], [source], bytes, [barrier]",
    ),
    (
        tensormap.replace("global_stride", "global"),
        "tensormap.replace.tile.global_stride.global.b1024.b64 [tensor_map], 0, value",
    ),
    (tensormap.fence("acquire", "gpu"), "fence.proxy.tensormap::generic.acquire.gpu [tensor_map], 128"),
    (
        mbarrier_phases.arrive_state(("relaxed", "cluster"), expect_tx=True),
        "mbarrier.arrive.expect_tx.relaxed.cluster.shared.b64 state, [barrier], bytes",
    ),
    (
        mbarrier_phases.wait("try_wait", "state", ("acquire", "cta"), time_hint=True),
        "mbarrier.try_wait.acquire.cta.shared.b64 done, [barrier], state, time_hint",
    ),
    (
        mbarrier_phases.transaction("complete_tx", "cluster", "cluster"),
        "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [barrier], bytes",
    ),
    (
        matrix_move.ldmatrix(1, True, "m16n16", "b8"),
        "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {fragment0, fragment1}, [address]",
    ),
    (
        cp_async.copy("ca", 8, "bytes", prefetch=64, cache_hint=True),
        "cp.async.ca.shared.global.L2::cache_hint.L2::64B [destination], [source], 8, bytes, cache_policy",
    ),
    (cp_async.copy("cg", 16), "cp.async.cg.shared.global [destination], [source], 16"),
    (
        async_store.store("u32", 2),
        f"st.async.shared::cluster.{BULK}.v2.u32 [destination], {{values0, values1}}, [barrier]",
    ),
    (warp.shuffle("up", True), "shfl.sync.up.b32 result|in_range, value, lane, clamp, members"),
    (warp.vote("ballot"), "vote.sync.ballot.b32 result, predicate, members"),
    (warp.match("all", 64, True), "match.all.sync.b64 lanes|equal, value, members"),
    (warp.reduce("max", "u32"), "redux.sync.max.u32 result, value, members"),
    (sync.barrier_reduce("popc", counted=True), "bar.red.popc.u32 result, id, threads, predicate"),
    (
        cache_control.policy_range("L2::evict_last", "L2::evict_first", "global"),
        "createpolicy.range.global.L2::evict_last.L2::evict_first.b64 policy, [address], primary_bytes, total_bytes",
    ),
]


def test_every_operand_stands_where_the_ptx_isa_puts_it() -> None:
    compiled = compile_rows([(row, lowest_target(row)) for row, _ in EXPECTED])
    found = []
    for (row, _), result in zip(EXPECTED, compiled, strict=True):
        assert result.error == ""
        found.append(instruction(row, result.ptx))
    assert found == [expected for _, expected in EXPECTED]


@pytest.mark.parametrize(
    "ask",
    [
        lambda: tma_tensor.load_tensor(2, "im2col"),
        lambda: tma_tensor.load_tensor(2, destination="cta", multicast=True),
        lambda: tma_tensor.load_tensor(2, cta_group=4),
        lambda: tma_tensor.reduce_tensor(2, "mul"),
        lambda: tma_bulk.reduce_bulk("cluster", "add", "f32"),
        lambda: tensormap.replace("colour"),
        lambda: mbarrier_phases.wait("test_wait", time_hint=True),
        lambda: mbarrier_phases.arrive_state(expect_tx=True, counted=True),
        lambda: matrix_move.ldmatrix(4, True, "m16n16", "b8"),
        lambda: matrix_move.stmatrix(1, False, "m16n8", "b8"),
        lambda: cp_async.copy("cg", 8),
        lambda: async_store.store("b64", 4),
        lambda: warp.reduce("add", "f32"),
        lambda: warp.match("any", 32, True),
        lambda: cache_control.prefetch("L2::evict_last", "local"),
    ],
)
def test_an_axis_value_without_rows_is_named(ask: Callable[[], Row]) -> None:
    with pytest.raises(NoSuchRow, match=r" cannot be .*, only "):
        ask()
