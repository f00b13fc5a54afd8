"""What a warp or a warpgroup gives as one, and threads give differently: seen at build, and in the simulator."""

from __future__ import annotations

import re

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f16, f32, i32, u32, u64
from nvbackend.dry_run.values.apart import parts_of
from nvbackend.dry_run.values.unknown import combine, leaf
from nvbackend.dry_run.values.vectors import Lanes
from tests.dry_run.refusals import refusals

HALVES = nvb.Pointer(f16, align=32)
SHAPE = "m16n16k16"
RULE = "convergence.operand"


@nvb.kernel("sm_80", threads=64)
def warp_products(
    k, a: HALVES, b: HALVES, c: nvb.Pointer(f32, align=32), pitch: i32(minimum=16, multiple_of=16), *, by=""
):
    """Two warps: each a product of 16 x 16 of its own."""
    lane, warp = k.lane_id(), k.warp_id()
    below = {"lane": lane // 2, "half": lane // 16, "no": 0, "": 0}[by.partition(" ")[2]]
    rows = a + (warp * 16 + (below if by.startswith("load") else 0)) * pitch
    left = k.wmma.load("a", SHAPE, f16, rows, stride=pitch)
    right = k.wmma.load("b", SHAPE, f16, b, layout="col", stride=k.select(lane < 16, 16, 8) if by == "stride" else 16)
    acc = k.wmma.accumulator(SHAPE, f32)
    acc.set(k.wmma.mma(left, right, acc))
    k.wmma.store(c + (warp * 16 + (below if by.startswith("store") else 0)) * 16, acc, stride=16)


@nvb.kernel("sm_90a", threads=128)
def warpgroup_product(k, a: HALVES, out: nvb.Pointer(f32, align=16), *, by=""):
    mma = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32))
    left, right = k.shared_tile(mma.smem_a(64), name="left"), k.shared_tile(mma.smem_b(64), name="right")
    thread = k.thread_id()
    with k.range(32) as column:
        for tile in (left, right):
            tile.at(thread // 2, thread % 2 * 32 + column)[0] = a[thread // 2 * 64 + thread % 2 * 32 + column]
    k.fence.proxy_async()
    k.barrier.sync()
    steps = {"warp": k.warp_id(), "lane": k.lane_id() % 2, "warpgroup": k.warp_id() // 4, "": thread - thread}[by]
    acc, word = mma.accumulator(), k.wgmma.smem_descriptor(left) + steps.to(u64) * 2
    with k.wgmma.group():
        k.wgmma.mma_async(acc, word, k.wgmma.smem_descriptor(right), nvb.wgmma.mma_async("m64n64k16", f16, f16, f32))
    k.store_accumulator(acc, out, 64)


@nvb.kernel("sm_100a", threads=128)
def columns_of_a_warp(k, out: nvb.Pointer(u32), *, by=""):
    """Each warp fills its lanes of a column, and reads them back."""
    with k.tcgen05.tmem(32) as columns:
        mine = columns.lanes(k.warp_id() * 32)
        apart = (k.lane_id() << 16).to(u32)
        k.tcgen05.st(mine.address + apart if by == "st" else mine, "32x32b", [k.thread_id().to(u32)])
        k.tcgen05.wait_st()
        load = k.tcgen05.ld(mine.address + apart if by == "ld" else mine, "32x32b", 1)
        k.tcgen05.wait_ld(load)
        out[k.thread_id()] = load.values[0]


@nvb.kernel("sm_80", threads=64)
def half_warps_meet(k, out: nvb.Pointer(i32), *, by=""):
    """Two warps meet at a barrier, whose number or count differs."""
    thread, lane = k.thread_id(), k.lane_id()
    box = k.shared(i32, 64, name="box")
    box[thread] = thread
    number = 1 + lane // 16 if by == "number" else 1 + k.warp_id() // 2
    k.barrier.sync(number, 64 * (1 + lane % 2) if by == "count" else 64)
    out[thread] = box[63 - thread]


def _launched(kernel: nvb.KernelDefinition, by: str) -> list[str]:
    """The rules that the simulator names."""
    compiled = kernel.compile(by=by, check=False, assemble=False, cache=nvb.Cache.disabled())
    x, words = np.ones((64, 64), np.float16), np.zeros(128, np.uint32)
    arguments = {
        warp_products: (x, x, np.zeros((64, 64), np.float32), 64),
        warpgroup_product: (x, np.zeros((64, 64), np.float32)),
        columns_of_a_warp: (words,),
        half_warps_meet: (np.zeros(64, np.int32),),
    }
    try:
        nvb.runtime.load(compiled, device="simulator").launch(1, *arguments[kernel])
    except nvb.DiagnosticError as error:
        return [one.rule_id for one in error.diagnostics]
    return []


WRONG = [
    (warp_products, "load lane", "the same address, and lane 2 of warp 0"),
    (warp_products, "store half", "the same address, and lane 16 of warp 0"),
    (warp_products, "stride", "the same stride, and lane 16 of warp 0"),
    (
        warpgroup_product,
        "warp",
        "the same a_desc, and warp 1 gives another than warp 0",
    ),
    (warpgroup_product, "lane", "the same a_desc, and lane 1 of warp 0"),
    (
        columns_of_a_warp,
        "st",
        "the same tmem, and lane 1 of warp 3 gives another than lane 0",
    ),
    (
        columns_of_a_warp,
        "ld",
        "the same tmem, and lane 1 of warp 3 gives another than lane 0",
    ),
]
WRONG += [
    (half_warps_meet, "number", "the same id, and lane 16 of warp 0"),
    (half_warps_meet, "count", "the same threads, and lane 1 of warp 0"),
]
RIGHT = [
    (half_warps_meet, ""),
    (warp_products, ""),
    (warp_products, "load no"),
    (warpgroup_product, ""),
    (warpgroup_product, "warpgroup"),
    (columns_of_a_warp, ""),
]


@pytest.mark.parametrize(("kernel", "by", "message"), WRONG)
def test_threads_that_give_different_ones_are_told(kernel, by: str, message: str) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        kernel.build(by=by)
    (only,) = caught.value.diagnostics
    assert only.rule_id == RULE
    assert message in only.message
    assert _launched(kernel, by) == [RULE]


@pytest.mark.parametrize(("kernel", "by"), RIGHT)
def test_what_all_have_in_common_is_right(kernel, by: str) -> None:
    assert refusals(kernel, by=by) == []
    assert _launched(kernel, by) == []


def test_a_fix_names_what_tells_them_apart() -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        warpgroup_product.build(by="warp")
    assert re.search("what the warpgroup has in common, and not from the warp:", caught.value.diagnostics[0].fix)


LANES = Lanes([*range(32)])


def test_a_sum_is_of_what_is_in_common_and_what_is_known() -> None:
    table: dict = {}
    n, loaded = leaf(table, "parameter", "n"), leaf(table, "load i32", LANES)
    common, known = parts_of(combine("add", combine("mul", combine("add", n, LANES), 4), 8))
    assert common is combine("mul", n, 4)
    assert known == LANES * 4 + 8
    assert parts_of(n) == (n, 0)
    common, known = parts_of(combine("mul", 4, combine("add", n, LANES)))
    assert common is combine("mul", n, 4)
    assert known == LANES * 4
    common, known = parts_of(combine("shl", combine("add", n, LANES), 3))
    assert common is combine("mul", n, 8)
    assert known == LANES * 8
    assert parts_of(combine("add", loaded, 1)) is None
    assert parts_of(combine("mul", n, LANES)) is None  # n may be 0
    assert parts_of(combine("lshr", combine("add", n, LANES), 5)) is None  # n may be a multiple of 32


def test_a_long_sum_is_not_followed() -> None:
    value = leaf({}, "parameter", "n")
    for _ in range(40):
        value = combine("add", value, LANES)
    assert parts_of(value) is None


def test_a_mask_takes_the_highest_bits_from_both() -> None:
    table: dict = {}
    n = leaf(table, "parameter", "n")
    _, known = parts_of(combine("and", combine("add", n, LANES * 2**16), 2**16 - 1))
    assert not any(known.numbers)
    assert parts_of(combine("and", combine("add", n, LANES), 24)) is None
