"""Threads that load, change and store words at places that data decides: more threads than words meet for certain."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import Pointer, i32, u32
from tests.support.runtime import broken, rules

U32 = Pointer(u32)


def counted(
    threads: int, bins: int, *, own: bool = False, turns: bool = False, by: str = "a sum"
) -> nvb.KernelDefinition:
    """Counts words by their low bits, in bins of all threads or of each warp's `own`."""

    @nvb.kernel("sm_80", threads=threads)
    def kernel(k, x: U32, y: U32):
        thread, size = k.thread_id(), bins * (threads // 32 if own else 1)
        words = k.shared(u32, size, name="words")
        with k.range(thread, size, threads) as index:
            words[index] = 0
        k.barrier.sync()
        place = (x[thread] & (bins - 1)).bitcast(i32) + (k.warp_id() * bins if own else 0)
        if by == "an atomic":
            (words + place).atomic("add", 1)
        elif by == "a mark":
            words[place] = 1
        elif turns:
            with k.range(threads // 32) as turn:
                with k.if_(k.warp_id() == turn):
                    words[place] = words[place] + 1
                k.barrier.sync()
        else:
            words[place] = words[place] + 1
        k.barrier.sync()
        with k.range(thread, size, threads) as index:
            y[index] = words[index]

    return kernel


@pytest.mark.parametrize(("threads", "bins"), [(64, 32), (128, 64), (32, 16), (256, 128)])
def test_more_threads_than_words_meet(threads: int, bins: int) -> None:
    (found,) = broken(counted(threads, bins).build)
    assert found.rule_id == "dry-run.two-writers"
    assert f"there are {bins} words" in found.message and "atomic" in (found.fix or "")


@pytest.mark.parametrize("turns", [False, True])
def test_lanes_of_a_warp_meet_too(turns: bool) -> None:
    """In turns of the warps, or in bins of each warp's own."""
    assert rules(counted(64, 16, own=not turns, turns=turns).build) == ["dry-run.two-writers"]


@pytest.mark.parametrize(
    "kernel",
    [
        counted(64, 64),  # each may have a word of its own
        counted(128, 32, own=True),  # each of a warp, too
        counted(64, 32, turns=True),  # the warps come one after another
        counted(128, 64, by="an atomic"),
        counted(128, 64, by="a mark"),  # all store the same
    ],
    ids=["as many words", "words of each warp", "turns", "atomics", "marks"],
)
def test_what_may_be_right_is_not_judged(kernel: nvb.KernelDefinition) -> None:
    assert rules(kernel.build) == []


@nvb.kernel("sm_80", threads=64)
def halved(k, x: U32, y: U32, *, by, meets):
    """Each `by` threads add to a word of theirs, whose place is computed twice."""
    words, thread = k.shared(u32, 64, name="words"), k.thread_id()
    words[thread] = 0
    k.barrier.sync()
    old = words[thread // by]
    if meets:
        k.warp.sync()
    words[thread // by] = old + x[thread]
    k.barrier.sync()
    y[thread] = words[thread]


@pytest.mark.parametrize(("by", "words"), [(2, "there are 16 words"), (32, "there is one word"), (1, "")])
def test_lanes_that_add_to_one_word_are_told_of_atomics(by: int, words: str) -> None:
    found = broken(lambda: halved.build(by=by, meets=False)) if words else []
    assert [one.rule_id for one in found] == ["dry-run.two-writers"] * bool(words)
    assert all(words in one.message and "atomic" in (one.fix or "") for one in found)
    if not words:
        assert rules(lambda: halved.build(by=by, meets=False)) == []
