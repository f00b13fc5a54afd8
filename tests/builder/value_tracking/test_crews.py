"""Who runs a block together under conditions of which data decides a part, against three-valued logic."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import f32

THREADS = 96
Truth = Callable[[int], bool | None]
"""Of a thread; None where data decides."""
Expression = tuple[str, Callable[[Any, Any], Any], Truth]


def both(first: bool | None, second: bool | None) -> bool | None:
    """Kleene's conjunction."""
    if first is False or second is False:
        return False
    return None if first is None or second is None else True


def opposite(truth: bool | None) -> bool | None:
    """Kleene's negation."""
    return None if truth is None else not truth


def drawn(draw: random.Random, depth: int, *, data: bool) -> Expression:
    """A random condition of the thread's number, and of data."""
    if not depth or draw.random() < 0.2:
        if data and draw.random() < 0.4:
            return "data", lambda t, x: x[t] > 3.0, lambda thread: None
        bound = draw.choice((1, 7, 32, 33, 63, 64, 95))
        return f"t < {bound}", lambda t, x: t < bound, lambda thread: thread < bound
    text, made, truth = drawn(draw, depth - 1, data=data)
    if draw.random() < 0.3:
        return f"~{text}", lambda t, x: ~made(t, x), lambda thread: opposite(truth(thread))
    also, other, holds = drawn(draw, depth - 1, data=data)
    if draw.random() < 0.5:
        return f"({text} & {also})", lambda t, x: made(t, x) & other(t, x), lambda t: both(truth(t), holds(t))
    return (
        f"({text} | {also})",
        lambda t, x: made(t, x) | other(t, x),
        lambda t: opposite(both(opposite(truth(t)), opposite(holds(t)))),
    )


@pytest.mark.parametrize("seed", range(3))
def test_crews_of_conditions_in_conditions(seed: int) -> None:
    draw = random.Random(seed)
    cases = [(drawn(draw, 2, data=False), drawn(draw, 3, data=True)) for _ in range(30)]
    names: list[tuple[str, str]] = []

    def kernel(k, x: nvb.Pointer[f32]):
        for outer, inner in cases:
            with k.if_(outer[1](k.thread_id(), x)):
                condition = inner[1](k.thread_id(), x)
                with k.if_(condition):
                    x[0] = 1.0
                    then = k.llvm.block.name
                with k.else_():
                    x[1] = 1.0
                    names.append((then, k.llvm.block.name))

    blocks = nvb.kernel("sm_90a", threads=THREADS)(kernel).build(check=False).machine.blocks
    is_known = 0
    for ((text, _, comes), (condition, _, holds)), sides in zip(cases, names, strict=True):
        inside = [thread for thread in range(THREADS) if comes(thread)]
        if not inside:
            continue  # nobody comes: any crew is right
        decided = all(holds(thread) is not None for thread in inside)
        for side, name in zip((True, False), sides, strict=True):
            expected = sum(1 << thread for thread in inside if holds(thread) is side) if decided else None
            crew = blocks[name].crew
            assert (None if crew is None else crew.bits) == expected, (text, condition, side)
            is_known += decided and any(holds(thread) is None for thread in range(THREADS))
    assert is_known
