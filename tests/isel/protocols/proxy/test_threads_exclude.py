"""Copies and reads under conditions that exclude each other, against all threads with all values of the parameters."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import product
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import f32, i32

THREADS, WARP = 64, 32
PARAMETERS = [*product((0, 1, 17, THREADS), range(3), range(2))]
Condition = tuple[str, Callable[[Any, Any, Any], Any]]
"""Its text; it made of the thread, its warp and the parameters, of Python's numbers too."""
Order = Callable[[Any], Any]
LEAVES: list[Condition] = [
    ("thread < n", lambda thread, warp, given: thread < given[0]),
    ("warp < m", lambda thread, warp, given: warp < given[1]),
    ("thread < 40", lambda thread, warp, given: thread < 40),
    ("few == 0", lambda thread, warp, given: given[2] == 0),
]
OPPOSITES: dict[str, Condition] = {
    "thread < n": ("thread >= n", lambda thread, warp, given: thread >= given[0]),
    "warp < m": ("warp >= m", lambda thread, warp, given: warp >= given[1]),
    "thread < 40": ("thread >= 40", lambda thread, warp, given: thread >= 40),
    "few == 0": ("few != 0", lambda thread, warp, given: given[2] != 0),
}
RULE = "async-copy.read-before-wait"


def drawn(chance: random.Random) -> list[Condition]:
    """Conditions, one inside of the other."""
    leaves = chance.sample(LEAVES, chance.choice((1, 1, 2)))
    return [OPPOSITES[leaf[0]] if chance.random() < 0.5 else leaf for leaf in leaves]


def own(thread: Any) -> Any:
    """Each thread uses its own word."""
    return thread


def found(
    copying: list[Condition], reading: list[Condition], shift: int, *, behind: bool = True, order: Order = own
) -> list[str]:
    """The rules broken where threads under a condition copy their words, and others use those `shift` further on."""

    @nvb.kernel("sm_80", threads=THREADS)
    def kernel(k: Any, x: nvb.Pointer[f32], out: nvb.Pointer[f32], n: i32, m: i32, few: i32) -> None:
        words = k.shared(f32, 3 * THREADS)
        thread = k.thread_id()
        with ExitStack() as stack:
            for _, condition in copying:
                stack.enter_context(k.if_(condition(thread, k.warp_id(), (n, m, few))))
            k.cp_async.copy(words + thread + THREADS, x + thread, 4)
            k.cp_async.commit_group()
        with ExitStack() as stack:
            for _, condition in reading:
                stack.enter_context(k.if_(condition(thread, k.warp_id(), (n, m, few))))
            mine = words + order(thread) + THREADS + shift
            mine[0] = 5.0
            out[thread] = mine[0]
        if behind:
            k.cp_async.wait_group(0)
            k.barrier.sync()
            out[thread + THREADS] = words[2 * THREADS - 1 - thread]

    try:
        return [one.rule_id for one in kernel.build(check=False).diagnostics]
    except nvb.DiagnosticError as error:
        return [one.rule_id for one in error.diagnostics]


def under(conditions: list[Condition], given: tuple[int, ...]) -> Iterator[int]:
    """The threads that all conditions hold for."""
    for thread in range(THREADS):
        if all(condition(thread, thread // WARP, given) for _, condition in conditions):
            yield thread


@pytest.mark.parametrize("seed", range(4))
def test_what_no_thread_may_read_while_it_comes_is_not_found(seed: int) -> None:
    verdicts = set()
    for number in range(14):
        chance = random.Random(14 * seed + number)
        copying, reading = drawn(chance), drawn(chance)
        shift = chance.choice((0, 0, 0, THREADS))
        ways = [({*under(copying, given)}, {*under(reading, given)}) for given in PARAMETERS]
        is_met = any(copied & {thread + shift for thread in read} for copied, read in ways)
        texts = [[text for text, _ in conditions] for conditions in (copying, reading)]
        assert found(copying, reading, shift, behind=chance.random() < 0.5) == [RULE] * is_met, (texts, shift)
        verdicts.add(is_met)
    assert verdicts == {True, False}


@pytest.mark.parametrize(("leaf", "is_met"), [("thread < n", True), ("warp < m", False), ("few == 0", False)])
def test_neighbours_share_words_where_one_alone_may_come(leaf: str, is_met: bool) -> None:
    """A warp that comes as a whole reads the words of its own threads alone, in whichever order."""
    below = next(condition for condition in LEAVES if condition[0] == leaf)
    neighbour = found([below], [OPPOSITES[leaf]], 0, behind=False, order=lambda thread: thread ^ 1)
    assert neighbour == [RULE] * is_met


@pytest.mark.parametrize("opposite", [True, False])
@pytest.mark.parametrize("in_a_loop", [True, False])
def test_a_loaded_flag_is_the_same_in_both(opposite: bool, in_a_loop: bool) -> None:
    """Unless a loop loads it anew: then the copy is that of a round before."""

    @nvb.kernel("sm_80", threads=THREADS)
    def kernel(k: Any, x: nvb.Pointer[f32], flags: nvb.Pointer[i32], out: nvb.Pointer[f32]) -> None:
        words = k.shared(f32, THREADS)
        thread = k.thread_id()
        with k.range(4) if in_a_loop else ExitStack() as step:
            flag = flags[thread + (step if in_a_loop else 0)] > 0
            with k.if_(~flag if opposite else flag):
                words[thread] = 5.0
                out[thread] = words[thread]
            with k.if_(flag):
                k.cp_async.copy(words + thread, x + thread, 4)
                k.cp_async.commit_group()
            with k.if_(~flag if opposite else flag):
                words[thread] = 5.0
                out[thread] = words[thread]

    with pytest.raises(nvb.DiagnosticError) if in_a_loop or not opposite else ExitStack():
        kernel.build(check=False)
