"""Other spellings of rows: the operands of each traced through the PTX, and that ptxas makes the same of both."""

from __future__ import annotations

import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path

from nvbackend.codegen.toolchain import find_ptxas
from nvbackend.intrinsics import spellings
from nvbackend.intrinsics.catalogue import FAMILIES
from nvbackend.intrinsics.copy import async_store, cp_async, matrix_move, tensormap, tma_tensor
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.sync import barriers as sync
from nvbackend.intrinsics.sync import cluster, launch_control, mbarrier, mbarrier_phases
from nvbackend.isel.target.target import Target
from tests.intrinsics.row.test_rows_operands import instruction
from tests.support.rows import compile_batch, compile_rows, joined, kernel_text, lowest_target, newest_target

BULK = "mbarrier::complete_tx::bytes"


def spelled(row: Row, ptx: str) -> Row:
    (found,) = [one for one in spellings.other_spellings(row) if one.ptx == ptx]
    return found


EXPECTED: list[tuple[Row, str, str]] = [
    (mbarrier.init(), "mbarrier.init.b64", "[barrier], count"),
    (mbarrier.inval(), "mbarrier.inval.shared::cta.b64", "[barrier]"),
    (mbarrier.arrive(counted=True), "mbarrier.arrive.b64", "_, [barrier], count"),
    (mbarrier.arrive_state(), "mbarrier.arrive.b64", "state, [barrier]"),
    (
        mbarrier_phases.arrive_state(("relaxed", "cluster"), expect_tx=True),
        "mbarrier.arrive.expect_tx.relaxed.cluster.b64",
        "state, [barrier], bytes",
    ),
    (mbarrier_phases.arrive_no_complete(drop=True), "mbarrier.arrive_drop.noComplete.b64", "state, [barrier], count"),
    (mbarrier_phases.transaction("complete_tx"), "mbarrier.complete_tx.b64", "[barrier], bytes"),
    (mbarrier_phases.wait("test_wait", "state"), "mbarrier.test_wait.shared::cta.b64", "done, [barrier], state"),
    (
        mbarrier_phases.wait("try_wait", "parity", time_hint=True),
        "mbarrier.try_wait.parity.b64",
        "done, [barrier], parity, time_hint",
    ),
    (mbarrier_phases.copy_arrive(no_increment=True), "cp.async.mbarrier.arrive.noinc.b64", "[barrier]"),
    (matrix_move.ldmatrix(2), "ldmatrix.sync.aligned.m8n8.x2.b16", "{fragment0, fragment1}, [address]"),
    (matrix_move.stmatrix(1), "stmatrix.sync.aligned.m8n8.x1.shared::cta.b16", "[address], {fragment}"),
    (
        cp_async.copy("ca", 8, "bytes", cache_hint=True),
        "cp.async.ca.shared::cta.global.L2::cache_hint",
        "[destination], [source], 8, bytes, cache_policy",
    ),
    (sync.barrier_sync(counted=True), "barrier.cta.sync.aligned", "id, threads"),
    (sync.barrier_arrive(aligned=False), "barrier.cta.arrive", "id, threads"),
    (sync.barrier_reduce("and", counted=True), "barrier.red.and.aligned.pred", "result, id, threads, predicate"),
    (async_store.store("f32", 2), f"st.async.weak.{BULK}.v2.f32", "[destination], {values0, values1}, [barrier]"),
    (async_store.store_global("u16", "sys", mmio=True), "st.async.mmio.release.sys.u16", "[destination], value"),
    (async_store.reduce("add", "u64"), f"red.async.relaxed.cluster.{BULK}.add.u64", "[destination], value, [barrier]"),
    (async_store.add_global("s64", "gpu"), "red.async.release.gpu.add.s64", "[destination], value"),
    (
        tensormap.replace("global_address", "global"),
        "tensormap.replace.tile.global_address.b1024.b64",
        "[tensor_map], value",
    ),
    (
        launch_control.try_cancel(),
        f"clusterlaunchcontrol.try_cancel.async.{BULK}.b128",
        "[destination], [barrier]",
    ),
    (
        tma_tensor.load_tensor(2, multicast=True, cache_hint=True),
        f"cp.async.bulk.tensor.2d.shared::cluster.global.{BULK}.multicast::cluster.L2::cache_hint",
        "[destination], [tensor_map, {coordinates0, coordinates1}], [barrier], multicast_mask, cache_policy",
    ),
    (
        tma_tensor.reduce_tensor(1, "add"),
        "cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.bulk_group",
        "[tensor_map, {coordinates}], [source]",
    ),
]
OF_THEIR_OWN: list[tuple[Row, str]] = [
    (
        spelled(async_store.store_global("s8", "gpu"), "st.async.release.gpu.s8"),
        "{ .reg .b8 byte; cvt.u8.u16 byte, value; st.async.release.gpu.s8 [destination], byte; }",
    ),
    (cluster.mapa(None, 64), "mapa.u64 mapped, address, rank"),
    (cluster.mapa("shared::cluster", 64), "mapa.shared::cluster.u64 mapped, address, rank"),
    (cluster.getctarank(None, 64), "getctarank.u64 rank, address"),
    (async_store.add_global("u32", "sys", mmio=True), "red.async.mmio.release.sys.global.add.u32 [destination], value"),
    (tensormap.prefetch("param"), "prefetch.param.tensormap [tensor_map]"),
]
CASES = [*((spelled(row, ptx), f"{ptx} {operands}") for row, ptx, operands in EXPECTED), *OF_THEIR_OWN]


def test_each_operand_is_where_the_instruction_wants_it() -> None:
    compiled = compile_rows([(row, lowest_target(row)) for row, _ in CASES])
    found = [instruction(row, result.ptx) for (row, _), result in zip(CASES, compiled, strict=True)]
    assert found == [wanted for _, wanted in CASES]


def same_addresses() -> list[tuple[Row, Row]]:
    """Rows with a row that is spelled otherwise, where both take the same addresses."""
    pairs = []
    for family, rows_of in FAMILIES.items():
        if family != "spellings":
            pairs += [(row, other) for row in rows_of() for other in spellings.other_spellings(row)]
    return [(row, other) for row, other in pairs if row.operands == other.operands]


def test_ptxas_makes_the_same_of_both_spellings() -> None:
    """Kernels that differ in nothing but the spelling are the same binary, byte by byte."""
    groups: dict[Target, list[tuple[Row, Row]]] = defaultdict(list)
    for row, other in same_addresses():
        groups[newest_target(row)].append((row, other))
    assert sum(map(len, groups.values())) > 400
    for target, pairs in groups.items():
        usual, otherwise = (_binary([pair[which] for pair in pairs], target) for which in (0, 1))
        assert usual == otherwise, target


def _binary(rows: list[Row], target: Target) -> bytes:
    compiled = compile_batch([(kernel_text(row, f"kernel{place}"), target) for place, row in enumerate(rows)])
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(joined([one.ptx for one in compiled]), encoding="utf-8")
        command = [str(find_ptxas().path), f"-arch={target.name}", "-O1", "-w", str(source), "-o", str(binary)]
        subprocess.run(command, check=True, timeout=120)
        return binary.read_bytes()


def test_a_row_that_is_spelled_in_one_way_has_no_other() -> None:
    assert spellings.other_spellings(sync.elect()) == ()
    assert spellings.other_spellings(mbarrier.wait_parity()) == ()
    assert [one.ptx for one in spellings.other_spellings(sync.fence("acq_rel", "sys"))] == ["fence.sys"]
