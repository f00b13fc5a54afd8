"""Copies in flight beside reads at another order of the threads: whether they share a byte, against sets of words."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import f16, f32, u32

THREADS = 64
TILES = 3
ORDERS: dict[str, Callable[[Any], Any]] = {
    "same": lambda thread: thread,
    "back": lambda thread: THREADS - 1 - thread,
    "turned": lambda thread: (thread * 5 + 3) % THREADS,
    "pairs": lambda thread: thread ^ 1,
    "half": lambda thread: thread // 2,
}
"""Which word of a tile a thread reads: for its number, and for that of Python."""
RULE = "async-copy.read-before-wait"


def rules_of(kernel: nvb.Kernel) -> list[str]:
    """The rules that the kernel breaks."""
    try:
        return [one.rule_id for one in kernel.build().diagnostics]
    except nvb.DiagnosticError as error:
        return [one.rule_id for one in error.diagnostics]


def found(order: str, copied: list[int], left: int, starts: list[int]) -> list[str]:
    """The rules broken where words from `starts` on are read while the last `left` of the tiles `copied` may come."""

    @nvb.kernel("sm_80", threads=THREADS)
    def kernel(k: Any, x: nvb.Pointer[f32], out: nvb.Pointer[f32]) -> None:
        words = k.shared(f32, THREADS * (TILES + 1))
        thread = k.thread_id()
        for tile in copied:
            k.cp_async.copy(words + tile * THREADS + thread, x + tile * THREADS + thread, 4)
            k.cp_async.commit_group()
        k.cp_async.wait_group(left)
        k.barrier.sync()
        for start in starts:
            out[start + thread] = words[start + ORDERS[order](thread)]

    return rules_of(kernel)


@pytest.mark.parametrize("seed", range(4))
def test_reads_at_another_order_meet_the_copies_of_their_words_alone(seed: int) -> None:
    verdicts = set()
    for number in range(12):
        chance = random.Random(12 * seed + number)
        order, left = chance.choice([*ORDERS]), chance.choice((0, 1, 2))
        copied = chance.sample(range(TILES), TILES)
        steps = (THREADS,) if order == "same" else (1, THREADS // 2, THREADS)  # its other words are of the dry run
        longest = chance.choice((1, 1, 12))
        starts = [chance.choice(steps) * chance.choice((0, 0, 1, 2)) for _ in range(longest)]
        in_flight = {tile * THREADS + word for tile in copied[TILES - left :] for word in range(THREADS)}
        read = {start + ORDERS[order](thread) for start in starts for thread in range(THREADS)}
        assert found(order, copied, left, starts) == [RULE] * bool(in_flight & read), (order, copied, left, starts)
        verdicts.add(bool(in_flight & read))
    assert verdicts == {True, False}


@pytest.mark.parametrize(("row", "meets"), [(0, False), (7, False), (8, True), (31, True)])
def test_rows_of_a_matrix_are_where_their_lanes_say(row: int, meets: bool) -> None:
    """Sixteen rows of 16 bytes from `row` on, in reverse order, and a copy in flight from row 23 on."""
    rows, first = 64, 23

    @nvb.kernel("sm_80", threads=32)
    def kernel(k: Any, x: nvb.Pointer(f16, align=16), out: nvb.Pointer[u32]) -> None:  # type: ignore[valid-type]
        tile = k.shared(f16, rows * 8, align=16)
        lane = k.thread_id()
        k.cp_async.copy(tile + lane * 8, x + lane * 8, 16)
        k.cp_async.commit_group()
        k.cp_async.copy(tile + (lane + first) * 8, x + lane * 8, 16)
        k.cp_async.commit_group()
        k.cp_async.wait_group(1)
        k.barrier.sync()
        parts = k.mma.ldmatrix(tile + (row + 15 - lane % 16) * 8, count=2)
        out[lane] = parts[0] + parts[1]

    assert rules_of(kernel) == [RULE] * meets
