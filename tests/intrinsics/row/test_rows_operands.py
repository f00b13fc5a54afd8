"""Where each operand goes: the instruction in the PTX, its registers traced back to the operands they came from.

The expected operand lists are written from the PTX ISA's syntax, not from the rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from nvbackend.intrinsics.copy import matrix_move, tensormap, tma_bulk, tma_tensor
from nvbackend.intrinsics.row.row import NoSuchRow, Role, Row
from nvbackend.intrinsics.sync import barriers as sync
from nvbackend.intrinsics.sync import cluster, mbarrier, mbarrier_phases, register_budget, special_registers, warp
from tests.support.rows import SLOT_BYTES, compile_rows, lowest_target

BULK = "mbarrier::complete_tx::bytes"
EXPECTED: list[tuple[Row, str]] = [
    (mbarrier.init(), "mbarrier.init.shared.b64 [barrier], count"),
    (mbarrier.inval(), "mbarrier.inval.shared.b64 [barrier]"),
    (mbarrier.arrive_state(), "mbarrier.arrive.shared.b64 state, [barrier]"),
    (mbarrier.arrive(), "mbarrier.arrive.shared::cta.b64 _, [barrier]"),
    (mbarrier.arrive(counted=True), "mbarrier.arrive.shared::cta.b64 _, [barrier], count"),
    (mbarrier.arrive("cluster"), "mbarrier.arrive.shared::cluster.b64 _, [barrier]"),
    (
        mbarrier.arrive("cluster", ("release", "cluster")),
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [barrier]",
    ),
    (mbarrier.arrive(expect_tx=True), "mbarrier.arrive.expect_tx.shared::cta.b64 _, [barrier], bytes"),
    (
        mbarrier.arrive("cluster", drop=True, expect_tx=True),
        "mbarrier.arrive_drop.expect_tx.shared::cluster.b64 _, [barrier], bytes",
    ),
    (
        mbarrier_phases.transaction("expect_tx", "cta", "cta"),
        "mbarrier.expect_tx.relaxed.cta.shared.b64 [barrier], bytes",
    ),
    (mbarrier.try_wait_parity(), "mbarrier.try_wait.parity.shared.b64 done, [barrier], parity"),
    (
        mbarrier.try_wait_parity(time_hint=True),
        "mbarrier.try_wait.parity.shared.b64 done, [barrier], parity, time_hint",
    ),
    (mbarrier.test_wait_parity(), "mbarrier.test_wait.parity.shared.b64 done, [barrier], parity"),
    (mbarrier.wait_parity(), "mbarrier.try_wait.parity.shared::cta.b64 ready, [barrier], parity"),
    (cluster.mapa(), "mapa.shared::cluster.u32 mapped, address, rank"),
    (cluster.getctarank(), "getctarank.shared::cluster.u32 rank, address"),
    (sync.barrier_sync(), "bar.sync id"),
    (sync.barrier_sync(counted=True), "bar.sync id, threads"),
    (sync.barrier_arrive(), "bar.arrive id, threads"),
    (sync.barrier_sync(counted=True, aligned=False), "barrier.sync id, threads"),
    (sync.warp_sync(), "bar.warp.sync mask"),
    (sync.elect(), "elect.sync leader|elected, mask"),
    (sync.nanosleep(), "nanosleep.u32 nanoseconds"),
    (warp.shuffle("idx"), "shfl.sync.idx.b32 result, value, lane, clamp, members"),
    (register_budget.setmaxnreg("inc"), "setmaxnreg.inc.sync.aligned.u32 24"),
    (special_registers.special_register("tid.x"), "mov.u32 value, %tid.x"),
    (special_registers.special_register("gridid"), "mov.u64 value, %gridid"),
    (matrix_move.ldmatrix(2), "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {fragment0, fragment1}, [address]"),
    (
        matrix_move.stmatrix(4, transposed=True),
        "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [address], {fragment0, fragment1, fragment2, fragment3}",
    ),
    (matrix_move.movmatrix(), "movmatrix.sync.aligned.m8n8.trans.b16 fragment, source"),
    (matrix_move.pack("bf16x2"), "cvt.rn.bf16x2.f32 packed, high, low"),
    (matrix_move.prmt(), "prmt.b32 bytes, low, high, selector"),
    (
        tma_tensor.load_tensor(1),
        (
            f"cp.async.bulk.tensor.1d.shared::cluster.global.tile.{BULK} "
            "[destination], [tensor_map, {coordinates}], [barrier]"
        ),
    ),
    (
        tma_tensor.load_tensor(2, multicast=True),
        (
            f"cp.async.bulk.tensor.2d.shared::cluster.global.tile.{BULK}.multicast::cluster "
            "[destination], [tensor_map, {coordinates0, coordinates1}], [barrier], multicast_mask"
        ),
    ),
    (
        tma_tensor.load_tensor(3, multicast=True, cache_hint=True),
        (
            f"cp.async.bulk.tensor.3d.shared::cluster.global.tile.{BULK}.multicast::cluster.L2::cache_hint "
            "[destination], [tensor_map, {coordinates0, coordinates1, coordinates2}], [barrier], "
            "multicast_mask, cache_policy"
        ),
    ),
    (
        tma_tensor.store_tensor(2, cache_hint=True),
        (
            "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group.L2::cache_hint "
            "[tensor_map, {coordinates0, coordinates1}], [source], cache_policy"
        ),
    ),
    (
        tma_tensor.prefetch_tensor(2),
        "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [tensor_map, {coordinates0, coordinates1}]",
    ),
    (
        tma_bulk.load_bulk(cache_hint=True),
        (
            f"cp.async.bulk.shared::cluster.global.{BULK}.L2::cache_hint "
            "[destination], [source], bytes, [barrier], cache_policy"
        ),
    ),
    (tma_bulk.store_bulk(), "cp.async.bulk.global.shared::cta.bulk_group [destination], [source], bytes"),
    (
        tma_bulk.copy_bulk(),
        f"cp.async.bulk.shared::cluster.shared::cta.{BULK} [destination], [source], bytes, [barrier]",
    ),
    (tma_bulk.prefetch_bulk(), "cp.async.bulk.prefetch.L2.global [source], bytes"),
    (tma_bulk.wait_group(read=True), "cp.async.bulk.wait_group.read 0"),
    (tensormap.prefetch(), "prefetch.tensormap [tensor_map]"),
]

_REGISTER = re.compile(r"%(?:p|rs|rd|r|f|fd)\d+")


def test_every_operand_stands_where_the_ptx_isa_puts_it() -> None:
    compiled = compile_rows([(row, lowest_target(row)) for row, _ in EXPECTED])
    for (row, expected), result in zip(EXPECTED, compiled, strict=True):
        assert result.error == ""
        assert instruction(row, result.ptx) == expected


def _slots(row: Row, *, of_outputs: bool) -> dict[int, str]:
    """Byte offset to name, in the order in which the kernel reads (or writes) the registers of `row`."""
    names: list[str] = []
    for operand in row.operands:
        if operand.role is (Role.OUTPUT if of_outputs else Role.INPUT):
            names += [operand.name] if operand.count == 1 else [f"{operand.name}{i}" for i in range(operand.count)]
    return {index * SLOT_BYTES: name for index, name in enumerate(names)}


def instruction(row: Row, ptx: str) -> str:
    """The line of `row` in `ptx`, with operand names for registers: loads lead in, stores lead out."""
    lines = [re.sub(r"\s+", " ", line).strip().rstrip(";") for line in ptx.splitlines()]
    place = next(index for index, line in enumerate(lines) if re.search(rf"{re.escape(row.ptx)}(?![\w.:])", line))
    names = _inputs(row, lines[:place])
    names |= _outputs(row, lines[place + 1 :])
    text = lines[place]
    braced = re.search(r"WAIT: (.*?);", text)
    return _REGISTER.sub(lambda found: names[found.group()], braced.group(1) if braced else text)


def _inputs(row: Row, lines: list[str]) -> dict[str, str]:
    slots, names = _slots(row, of_outputs=False), {}
    for line in lines:
        loaded = re.match(rf"ld\.global\S* ({_REGISTER.pattern}), \[%rd\d+(?:\+(\d+))?\]", line)
        if loaded:
            names[loaded.group(1)] = slots[int(loaded.group(2) or 0)]
            continue
        target, *sources = _REGISTER.findall(line) or [""]
        if sources and sources[0] in names:
            names[target] = names[sources[0]]
    return names


def _outputs(row: Row, lines: list[str]) -> dict[str, str]:
    slots, names = _slots(row, of_outputs=True), {}
    stored = [re.match(rf"st\.global\S* \[%rd\d+(?:\+(\d+))?\], ({_REGISTER.pattern})", line) for line in lines]
    names = {found.group(2): slots[int(found.group(1) or 0)] for found in stored if found}
    for line in reversed(lines):
        target, *sources = _REGISTER.findall(line) or [""]
        if not line.startswith("st.") and target in names:
            names.update(dict.fromkeys(sources, names[target]))
    return names


def test_rows_of_one_choice_are_one_object() -> None:
    assert tma_tensor.load_tensor(2) is tma_tensor.load_tensor(2)
    assert tma_tensor.load_tensor(2) != tma_tensor.load_tensor(2, multicast=True)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: tma_tensor.load_tensor(0),
        lambda: tma_tensor.store_tensor(6),
        lambda: matrix_move.ldmatrix(3),
        lambda: matrix_move.pack("f32x2"),
        lambda: mbarrier.arrive("global"),
        lambda: mbarrier.arrive(qualifiers=("acquire", "cta")),
        lambda: mbarrier.arrive(expect_tx=True, counted=True),
        lambda: cluster.barrier_arrive("acquire"),
        lambda: sync.fence("acq_rel", "warp"),
        lambda: sync.fence_proxy_async("local"),
        lambda: special_registers.special_register("warpsize"),
        lambda: register_budget.setmaxnreg("set"),
    ],
)
def test_an_axis_value_without_rows_is_named(ask: Callable[[], Row]) -> None:
    with pytest.raises(NoSuchRow, match=r" cannot be .*, only "):
        ask()
