"""Lists in memory that end with a negative entry: one role may leave there, where another skips what is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import i32
from tests.dry_run.test_lengths_in_memory import LENGTHS, OUT, X, loaded
from tests.support.runtime import rules

Step = Callable[[Any], None]
Walk = Callable[[nvb.KernelBuilder, Any, Any, Step], None]


def leaves(k: nvb.KernelBuilder, pages: Any, most: Any, step: Step) -> None:
    """Up to the end of the list, wherever that is."""
    at = k.var(0)
    with k.loop():
        k.break_if(pages[at.value] < 0)
        step(at.value)
        at += 1


def leaves_a_table(k: nvb.KernelBuilder, pages: Any, most: Any, step: Step) -> None:
    with k.range(most) as at:
        k.break_if(pages[at] < 0)
        step(at)


def skips(k: nvb.KernelBuilder, pages: Any, most: Any, step: Step, after: int = 0) -> None:
    """All entries of a table, but those after the end."""
    with k.range(most) as at, k.if_(pages[at + after] >= 0):
        step(at)


def skips_by_the_next(k: nvb.KernelBuilder, pages: Any, most: Any, step: Step) -> None:
    skips(k, pages, most, step, after=1)


def goes_on(k: nvb.KernelBuilder, pages: Any, most: Any, step: Step) -> None:
    with k.range(most) as at:
        step(at)


def leaves_late(k: nvb.KernelBuilder, pages: Any, most: Any, step: Step) -> None:
    """One entry too many."""
    with k.range(most) as at:
        step(at)
        k.break_if(pages[at] < 0)


def listed(producer: Walk, consumer: Walk, stages: int) -> nvb.KernelDefinition:
    @nvb.kernel("sm_90", threads=64)
    def kernel(k, x: X, pages: LENGTHS, y: OUT, most: i32(minimum=1)):
        load, read = loaded(k, stages)

        def walk(how: Walk, one: Step) -> None:
            done = k.var(0)

            def step(_: Any) -> None:
                one(done.value)
                done.set(done + 1)

            how(k, pages, most, step)

        with k.one_thread(1):
            walk(producer, lambda step: load(step, x))
        with k.if_(k.warp_id() == 0):
            walk(consumer, lambda step: read(step, y))

    return kernel


RIGHT = [(leaves, skips), (skips, leaves), (leaves_a_table, skips), (skips, leaves_a_table), (leaves, leaves_a_table)]
WRONG = [(leaves, goes_on), (goes_on, skips), (leaves, skips_by_the_next), (skips, leaves_late), (leaves_late, skips)]


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize(("producer", "consumer"), RIGHT)
def test_one_role_leaves_what_another_one_skips(producer: Walk, consumer: Walk, stages: int) -> None:
    assert list(listed(producer, consumer, stages).build().diagnostics) == []


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize(("producer", "consumer"), WRONG)
def test_roles_that_take_other_entries(producer: Walk, consumer: Walk, stages: int) -> None:
    assert rules(listed(producer, consumer, stages).build)
