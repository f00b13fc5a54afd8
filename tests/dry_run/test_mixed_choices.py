"""Branches in loops, on a number in memory for each round: some of them hold and some do not, in one run."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import f32, i32
from tests.support.runtime import rules

X, TABLE = nvb.Pointer(f32, align=128), nvb.Pointer(i32, align=16)
RIGHT = ("one table", "two tables", "where it changes", "nested")
WRONG = {
    "producer counts all": "mbarrier.deadlock",
    "consumer counts all": "mbarrier.parity-counter",
    "consumer asks for the next": "dry-run.fill-left",
}


def sparse(asks: str, wrong: str = "") -> nvb.KernelDefinition:
    """Rows that a table names, in a ring of two; the others are neither loaded nor read."""

    @nvb.kernel("sm_90", threads=64)
    def kernel(k, x: X, table: TABLE, other: TABLE, y: nvb.Pointer[f32], n: i32(minimum=1)):
        box, at = k.shared(f32, 2 * 32, align=128, name="box"), k.var(0)
        full, empty = (k.mbarrier.array(2, arrivals=1, name=name) for name in ("full", "empty"))
        k.mbarrier.ready()

        def counts(row):
            if asks == "where it changes":
                return (row == 0) | (table[row] != table[k.math.max(row - 1, 0)])
            return (table[row] > 0) & (other[row] == 3) if asks == "two tables" else table[row] > 0

        with k.one_thread(1), k.range(n) as row, k.if_(counts(row)):
            step = row if wrong == "producer counts all" else at.value
            k.mbarrier.wait(empty + step % 2, (step // 2 & 1) ^ 1)
            k.mbarrier.arrive(full + step % 2, expect_tx=128)
            k.bulk.load(box + step % 2 * 32, x + row * 32, 128, full + step % 2)
            at += 1
        with k.if_(k.warp_id() == 0), k.range(n) as row:
            asked = counts(row + 1 if wrong == "consumer asks for the next" else row)
            with k.if_(asked):
                step = row if wrong == "consumer counts all" else at.value
                k.mbarrier.wait(full + step % 2, step // 2 & 1)
                if asks == "nested":
                    with k.if_(other[row] > 0):
                        y[row * 32 + k.lane_id()] = box[step % 2 * 32 + k.lane_id()]
                else:
                    y[row * 32 + k.lane_id()] = box[step % 2 * 32 + k.lane_id()]
                k.warp.sync()
                k.mbarrier.arrive(empty + step % 2, when=k.lane_id() == 0)
                at += 1

    return kernel


@pytest.mark.parametrize("asks", RIGHT)
def test_both_roles_skip_the_same_rows(asks: str) -> None:
    assert list(sparse(asks).build().diagnostics) == []


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("asks", ["one table", "two tables"])
def test_roles_that_count_other_rows(asks: str, wrong: str) -> None:
    """With all rows, or with none, they agree."""
    assert set(rules(sparse(asks, wrong).build)) == {WRONG[wrong]}
