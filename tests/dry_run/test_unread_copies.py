"""Copies for products of which nothing reads a part: a step along K that is left out, or taken twice."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import Major, SmemLayout, SwizzleMode, f16, f32, i32
from tests.corpus.parts import PRODUCT
from tests.dry_run.kernels.cutlass_sm100 import HALF, MMA, PART, ROWS, SHAPE, store
from tests.dry_run.kernels.cutlass_sm100 import MATRIX as TALL
from tests.dry_run.kernels.parts import COUNT, MATRIX, OUT, TILE
from tests.dry_run.measure import rules_of
from tests.dry_run.refusals import refusals

RULE = "copy.unread"
EVERY = range(0, 64, 16)
SCALES = nvb.TensorMap(f32, box=(1, 64), swizzle=0)
DEEP = SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 128)


def _columns(by):
    """The columns of A and B of each product of a step."""
    return {
        "": [(column, column) for column in EVERY],
        "B stays": [(column, 0) for column in EVERY],
        "A stays": [(0, column) for column in EVERY],
        "half": [(0, 0), (16, 16)],
        "one": [(0, 0)],
        "first left out": [(column, column) for column in EVERY[1:]],
        "backwards": [(column, 48 - column) for column in EVERY],
        "twice": [(column, column) for column in EVERY for _ in range(2)],
    }[by]


@nvb.kernel("sm_90a", threads=256)
def products(k, a: MATRIX, b: MATRIX, c: OUT, steps: COUNT, *, by="", tiles="ab", result=True):
    """A ring of two stages; one thread loads, a warpgroup multiplies."""
    ring = k.pipeline(2, 1, a=TILE, b=TILE)
    k.mbarrier.ready()
    with k.producer(40), k.range(steps) as step, ring.fill() as stage:
        k.tma.load(stage.a, a, (0, step * 64), stage.full)
        k.tma.load(stage.b, b, (0, step * 64), stage.full)
    with k.consumers(232):
        acc = k.wgmma.accumulator(64)
        with k.range(steps), ring.drain() as stage, k.wgmma.group():
            left, right = (getattr(stage, name) for name in tiles)
            for in_a, in_b in _columns(by):
                k.wgmma.mma_async(acc, left, right, PRODUCT, a_at=(0, in_a), b_at=(0, in_b))
        if result:
            k.store_accumulator(acc, c, 64)


@pytest.mark.parametrize("by", ["", "one", "backwards", "twice"])
def test_nothing_is_said_where_all_is_read(by: str) -> None:
    """Nor of products of a single step along K: they are examples, or measure something."""
    assert refusals(products, by=by) == []


@pytest.mark.parametrize(
    ("by", "told"),
    [
        ("B stays", [("b", "32 to 127")]),
        ("A stays", [("a", "32 to 127")]),
        ("half", [("a", "64 to 127"), ("b", "64 to 127")]),
        ("first left out", [("a", "0 to 31"), ("b", "0 to 31")]),
    ],
)
def test_columns_that_no_product_reads_are_told(by: str, told: list[tuple[str, str]]) -> None:
    """By their places in a row as the tensor has it, whatever the swizzle makes of it."""
    found = products.build(by=by).diagnostics
    said = [
        f"cp.async.bulk.tensor fills {name}, and nothing in the kernel reads bytes {which} of its rows of 128 bytes"
        for name, which in told
    ]
    assert [(one.rule_id, one.severity) for one in found] == [(RULE, nvb.Severity.WARNING)] * len(told)
    assert [one.message for one in found] == said
    sources = [one.location.source for one in found if one.location is not None]
    assert all(f"stage.{name}" in source for (name, _), source in zip(told, sources, strict=True))


@pytest.mark.parametrize(("tiles", "left"), [("aa", "b"), ("bb", "a"), ("ba", "")])
def test_a_tile_that_is_not_multiplied_is_told(tiles: str, left: str) -> None:
    found = products.build(tiles=tiles).diagnostics
    assert [one.message for one in found] == [
        f"cp.async.bulk.tensor fills {name}, and nothing in the kernel reads the 8192 bytes that it brings"
        for name in left
    ]


def test_a_kernel_without_results_is_a_part_of_one() -> None:
    assert RULE not in refusals(products, by="half", result=False)


@nvb.kernel("sm_90a", threads=128)
def panels(k, a: MATRIX, b: MATRIX, c: OUT, *, depth=128):
    """Two boxes for each tile."""
    ta, tb = k.shared_tile(DEEP, name="a"), k.shared_tile(DEEP, name="b")
    full, acc = k.mbarrier.array(1, arrivals=1), k.wgmma.accumulator(64)
    k.mbarrier.ready()
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=2 * DEEP.bytes)
        k.tma.load(ta, a, (0, 0), full)
        k.tma.load(tb, b, (0, 0), full)
    k.mbarrier.wait(full, 0)
    with k.wgmma.group():
        for column in range(0, depth, 16):
            k.wgmma.mma_async(acc, ta, tb, PRODUCT, a_at=(0, column), b_at=(0, column))
    k.store_accumulator(acc, c, 64)


@pytest.mark.parametrize(("depth", "boxes"), [(128, 0), (64, 2), (80, 2)])
def test_of_several_boxes_each_is_judged(depth: int, boxes: int) -> None:
    assert refusals(panels, depth=depth) == [RULE] * boxes


@nvb.kernel("sm_100a", threads=192)
def in_tensor_memory(k, a: TALL, b: PART, c: OUT, steps: COUNT, *, by=""):
    """tcgen05: one warp loads, one multiplies, four store."""
    ta, tb = k.shared_tiles(ROWS, 2, name="a"), k.shared_tiles(HALF, 2, name="b")
    full, empty = (k.mbarrier.array(2, arrivals=1, name=name) for name in ("full", "empty"))
    done = k.mbarrier.array(1, arrivals=1, name="done")
    k.mbarrier.ready()
    with k.tcgen05.tmem(64) as tmem:
        with k.one_thread(4), k.range(steps) as step:
            k.mbarrier.wait(empty + step % 2, step // 2 & 1 ^ 1)
            k.mbarrier.arrive(full + step % 2, expect_tx=ROWS.bytes + HALF.bytes)
            k.tma.load(ta.at(step % 2), a, (0, step * 64), full + step % 2)
            k.tma.load(tb.at(step % 2), b, (0, step * 64), full + step % 2)
        with k.one_thread(5):
            with k.range(steps) as step:
                k.mbarrier.wait(full + step % 2, step // 2 & 1)
                for number, (in_a, in_b) in enumerate(_columns(by)):
                    at = {"a_at": (0, in_a), "b_at": (0, in_b), "accumulate": step > 0 if number == 0 else True}
                    k.tcgen05.mma(MMA, tmem, ta.at(step % 2), tb.at(step % 2), SHAPE, **at)
                k.tcgen05.commit(empty + step % 2)
            k.tcgen05.commit(done)
        with k.if_(k.warp_id() < 4):
            k.mbarrier.wait(done, 0)
            k.tcgen05.fence_after_thread_sync()
            load = k.tcgen05.ld(tmem.lanes(k.warp_id() * 32), "32x32b", 64)
            k.tcgen05.wait_ld(load)
            store(c + k.thread_id() * 64, load.values)


@pytest.mark.parametrize(("by", "told"), [("", 0), ("B stays", 1), ("A stays", 1), ("half", 2)])
def test_products_in_tensor_memory_are_judged_too(by: str, told: int) -> None:
    assert refusals(in_tensor_memory, by=by) == [RULE] * told


@nvb.kernel("sm_90a", threads=128)
def read_by_threads(k, a: MATRIX, b: MATRIX, c: OUT, at: nvb.Pointer[i32], *, by=""):
    """What no product reads threads do: the rest, or what data decides."""
    ta, tb = (k.shared_tile(TILE, name=name) for name in "ab")
    full, acc = k.mbarrier.array(1, arrivals=1), k.wgmma.accumulator(64)
    k.mbarrier.ready()
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=2 * TILE.bytes)
        k.tma.load(ta, a, (0, 0), full)
        k.tma.load(tb, b, (0, 0), full)
    k.mbarrier.wait(full, 0)
    with k.wgmma.group():
        for column in EVERY:
            k.wgmma.mma_async(acc, ta, tb, PRODUCT, a_at=(0, column), b_at=(0, column % 32))
    k.store_accumulator(acc, c, 64)
    thread, total = k.thread_id(), k.var(0.0)
    with k.range(32) as column:
        if by == "all":
            total += tb.at(thread % 64, column + 32)[0].to(f32)
        elif by == "data":
            total += tb.at(at[thread], column)[0].to(f32)
        elif by == "rows":
            with k.if_(thread < 32):
                total += tb.at(thread, column + 32)[0].to(f32)
    c[4096 + thread] = total


@pytest.mark.parametrize(("by", "told"), [("", 1), ("all", 0), ("data", 0), ("rows", 0)])
def test_what_threads_read_is_read(by: str, told: int) -> None:
    """Where data decides the place, it may be any. Rows that are left over are no part of the depth."""
    assert refusals(read_by_threads, by=by) == [RULE] * told


@nvb.kernel("sm_90a", threads=128)
def scaled(k, a: MATRIX, scales: SCALES, c: OUT, *, reads=True):
    """A row of factors comes with the tile, and each thread reads one from the place where the tile's rows begin."""
    tile, row = k.shared_tile(TILE, name="a"), k.shared(f32, 64, align=128, name="row")
    full, acc = k.mbarrier.array(1, arrivals=1), k.wgmma.accumulator(64)
    k.mbarrier.ready()
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=TILE.bytes + 64 * 4)
        k.tma.load(tile, a, (0, 0), full)
        k.tma.load_box(row, scales, (0, 0), full)
    k.mbarrier.wait(full, 0)
    with k.wgmma.group():
        for column in EVERY:
            k.wgmma.mma_async(acc, tile, tile, PRODUCT, a_at=(0, column), b_at=(0, column))
    k.store_accumulator(acc, c, 64)
    if reads:
        c[4096 + k.thread_id()] = row[k.thread_id() % 8]


@pytest.mark.parametrize("reads", [True, False])
def test_threads_may_read_a_part_of_what_comes_with_a_tile(reads: bool) -> None:
    assert refusals(scaled, reads=reads) == [RULE] * (not reads)


def test_the_numbers_are_wrong_where_it_is_told() -> None:
    a, b = (np.random.default_rng(seed).integers(-3, 4, (64, 128)).astype(np.float16) for seed in (0, 1))
    right = a.astype(np.float32) @ b.astype(np.float32).T
    for by, wrong in (("", False), ("B stays", True)):
        finished = products.build(by=by)
        assert rules_of(finished.diagnostics) == (RULE if wrong else "silent")
        c = np.zeros((64, 64), np.float32)
        compiled = products.compile(by=by, assemble=False, cache=nvb.Cache.disabled())
        nvb.runtime.load(compiled, device="simulator").launch(1, a, b, c, 2)
        assert np.array_equal(c, right) is not wrong
