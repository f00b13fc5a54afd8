"""Copies of some threads and accesses of others at places that are written alike: whether they share a byte."""

from __future__ import annotations

import random
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import f32

THREADS = 96
WARP = 32


def found(copying: range, reading: range, shift: int, *, wide: int = 1) -> list[str]:
    """The rules broken where `reading` store and load the words `shift` behind those that `copying` fill."""

    @nvb.kernel("sm_80", threads=THREADS)
    def kernel(k: Any, x: nvb.Pointer(f32, align=16), out: nvb.Pointer[f32]) -> None:  # type: ignore[valid-type]
        words = k.shared(f32, 4 * THREADS * 3, align=16)
        thread = k.thread_id()
        with k.if_((thread >= copying.start) & (thread < copying.stop)):
            k.cp_async.copy(words + thread * wide, x + thread * wide, 4 * wide)
            k.cp_async.commit_group()
        with k.if_((thread >= reading.start) & (thread < reading.stop)):
            words[thread * wide + shift] = 5.0
            out[thread] = words[thread * wide + shift]
        k.cp_async.wait_group(0)

    try:
        return [one.rule_id for one in kernel.build().diagnostics]
    except nvb.DiagnosticError as error:
        return [one.rule_id for one in error.diagnostics]


def meets(copying: range, reading: range, shift: int, wide: int) -> bool:
    filled = {thread * wide + word for thread in copying for word in range(wide)}
    return any(thread * wide + shift in filled for thread in reading)


@pytest.mark.parametrize("seed", range(6))
def test_threads_that_share_no_word_need_no_wait(seed: int) -> None:
    random_ = random.Random(seed)
    verdicts = set()
    for _ in range(12):
        cut = random_.choice([WARP, 2 * WARP])
        copying, reading = range(cut), range(cut, THREADS)
        if random_.random() < 0.5:
            copying, reading = reading, copying
        wide, shift = random_.choice([1, 4]), random_.choice([0, 0, 1, 3, 7, 5 * WARP, 9 * WARP])
        is_met = meets(copying, reading, shift, wide)
        assert bool(found(copying, reading, shift, wide=wide)) == is_met, (copying, reading, shift, wide)
        verdicts.add(is_met)
    assert verdicts == {True, False}


@pytest.mark.parametrize("reading", [range(THREADS), range(16, THREADS), range(31, 64), range(1)])
def test_threads_that_read_what_they_copy_must_wait(reading: range) -> None:
    assert "async-copy.read-before-wait" in found(range(WARP), reading, 0)


@pytest.mark.parametrize("reading", [range(32, 33), range(33, THREADS)])
def test_the_next_threads_read_their_own(reading: range) -> None:
    assert found(range(WARP), reading, 0) == []
