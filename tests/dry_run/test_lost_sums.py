"""A product of wgmma that starts a new sum in an accumulator which nothing reads since the last one."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import i32
from tests.corpus.parts import PRODUCT
from tests.dry_run.kernels.parts import COUNT, MATRIX, OUT, TILE
from tests.dry_run.refusals import refusals

RULE = "wgmma.lost-product"


def loaded(k, a):
    """A tile that is there for all threads."""
    tile, full = k.shared_tile(TILE, name="a"), k.mbarrier.array(1, arrivals=1, name="full")
    k.mbarrier.ready()
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=TILE.bytes)
        k.tma.load(tile, a, (0, 0), full)
    k.mbarrier.wait(full, 0)
    return tile


@nvb.kernel("sm_90a", threads=128)
def sums(k, a: MATRIX, b: MATRIX, c: OUT, tiles: COUNT, steps: COUNT, *, by="tile"):
    """Tile after tile, each of several steps: one warpgroup, and one thread of it loads."""
    ta, tb = (k.shared_tile(TILE, name=name) for name in "ab")
    full = k.mbarrier.array(1, arrivals=1, name="full")
    k.mbarrier.ready()
    acc, total = k.wgmma.accumulator(64, name="sums"), k.var(0.0)
    with k.range(tiles, name="tile") as tile:
        acc.clear()
        with k.range(steps, name="step") as step:
            with k.one_thread():
                k.mbarrier.arrive(full, expect_tx=2 * TILE.bytes)
                k.tma.load(ta, a, (tile * 64, step * 64), full)
                k.tma.load(tb, b, (0, step * 64), full)
            k.mbarrier.wait(full, (tile * steps + step) & 1)
            if by in ("step", "read"):
                acc.clear()
            with k.wgmma.group():
                for column in range(0, 64, 16):
                    more = (
                        {"accumulate": False} if by == "product" else {"accumulate": column > 0} if by == "flag" else {}
                    )
                    k.wgmma.mma_async(acc, ta, tb, PRODUCT, a_at=(0, column), b_at=(0, column), **more)
            if by == "read":
                with k.if_(step % 2 == 0):
                    total += acc.values()[0]
            k.barrier.sync()
        k.store_accumulator(acc, c + tile * 4096, 64)
    c[tiles * 4096] = total


@nvb.kernel("sm_90a", threads=128)
def twice(k, a: MATRIX, c: OUT, rounds: i32(minimum=1), *, reads):
    """Two products in a row, each a sum of its own, of what was loaded once."""
    tile = loaded(k, a)
    acc = k.wgmma.accumulator(64, name="sums")
    with k.range(rounds):
        for part in range(2):
            with k.wgmma.group():
                k.wgmma.mma_async(acc, tile, tile, PRODUCT, accumulate=False)
            if part or reads:
                k.store_accumulator(acc, c + part * 4096, 64)


@pytest.mark.parametrize("by", ["tile", "read"])
def test_a_sum_that_is_read_may_end(by: str) -> None:
    """In some steps of the loop, too."""
    assert refusals(sums, by=by) == []


@pytest.mark.parametrize(
    ("by", "when", "last"),
    [
        ("step", "in round 0 of tile, round 1 of step, ", "round 0 of step"),
        ("flag", "in round 0 of tile, round 1 of step, ", "round 0 of step"),
        ("product", "in round 0 of tile, round 0 of step, ", "round 0 of step"),
    ],
)
def test_a_sum_that_starts_again_in_its_middle_is_told(by: str, when: str, last: str) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        sums.build(by=by)
    (only,) = caught.value.diagnostics
    assert only.rule_id == RULE
    assert only.message.startswith(f"{when}wgmma.mma_async of warpgroup 0 starts a new sum in accumulator sums")
    assert only.message.endswith(f"in round 0 of tile, {last} left there")


def test_two_sums_in_a_block() -> None:
    assert refusals(twice, reads=True) == []
    assert refusals(twice, reads=False) == [RULE]


@nvb.kernel("sm_90a", threads=128)
def measured(k, a: MATRIX, rounds: i32(minimum=2)):
    """Products alone, as a measurement makes them: nobody reads any sum."""
    tile = loaded(k, a)
    acc = k.wgmma.accumulator(64)
    with k.range(rounds), k.wgmma.group():
        k.wgmma.mma_async(acc, tile, tile, PRODUCT, accumulate=False)


def test_sums_that_no_line_reads_are_no_mistake() -> None:
    assert refusals(measured) == []


@nvb.kernel("sm_90a", threads=128)
def said_twice(k, a: MATRIX, c: OUT):
    """The second line says that it overwrites what the first one left."""
    tile = loaded(k, a)
    acc = k.wgmma.accumulator(64)
    with k.wgmma.group():
        k.wgmma.mma_async(acc, tile, tile, PRODUCT)
        k.wgmma.mma_async(acc, tile, tile, PRODUCT, accumulate=False)
    k.store_accumulator(acc, c, 64)


def test_a_line_may_overwrite_what_another_one_left() -> None:
    assert refusals(said_twice) == []
