"""The rounds of a loop in each thread, against Python's ranges."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import f32, i32
from nvbackend.builder.thread_tables.table import Table
from nvbackend.builder.value_tracking.known import Known
from nvbackend.builder.value_tracking.uniformity import _rounds
from nvbackend.intrinsics.row.semantics import Scope
from tests.support.tables import array


@pytest.mark.parametrize("width", [8, 32, 64])
def test_each_thread_has_the_rounds_of_its_range(width: int) -> None:
    lowest, highest = -(1 << width - 1), (1 << width - 1) - 1
    ends = (lowest, -5, -1, 0, 1, 2, 7, highest)
    bounds = [*itertools.product(ends, ends, (-2, -1, 0, 1, 2, 3, highest))]
    rows = [[number % (1 << width) for number in each] for each in zip(*bounds, strict=True)]
    found = _rounds([Known(Table((1, 1, len(row)), [row])) for row in rows], width).numbers
    assert found is not None
    # A length may be more than Python's `len` gives
    expected = [max(0, -((start - end) // step)) if step > 0 else 0 for start, end, step in bounds]
    assert array(found)[0, 0].tolist() == expected
    assert expected[bounds.index((-5, 7, 3))] == len(range(-5, 7, 3)) == 4


@pytest.mark.parametrize("unknown", range(3))
def test_nothing_is_known_where_one_of_the_three_is_not(unknown: int) -> None:
    number = Known(Table.of(5))
    for apparent in (Scope.THREAD, Scope.CTA):
        bounds = [Known(apparent=apparent) if place == unknown else number for place in range(3)]
        found = _rounds(bounds, 32)
        assert (found.numbers, found.certain, found.apparent) == (None, Scope.THREAD, apparent)


THREADS = 64
EVERYBODY = (1 << THREADS) - 1


def built(bounds: Callable[[Any, Any], tuple[Any, ...]], *, unreached: bool = False) -> tuple[Any, ...]:
    """Of a loop: what it counts, the threads that run its body together, and those that certainly do not begin it."""
    found: list[Any] = []

    def kernel(k, n: i32, x: nvb.Pointer[f32]):
        with k.if_(k.thread_id() < (0 if unreached else THREADS)), k.range(*bounds(k.thread_id().to(i32), n)) as index:
            x[k.thread_id()] = 1.0
            found.extend((k.core.execution.counted(index.ir), k.llvm.block.name))

    blocks = nvb.kernel("sm_90a", threads=THREADS)(kernel).build(check=False).machine.blocks
    counted, name = found
    header = next(block for block in blocks.values() if name in block.successors)
    crew = blocks[name].crew
    return counted, None if crew is None else crew.bits, header.sides


@pytest.mark.parametrize("step", [1, 2, 3, 7])
@pytest.mark.parametrize(
    ("first", "end"), [(0, 5), (2, 3), (2, 9), (3, 10), (-4, 1), (-7, -3), (4, 4), (5, 4), (1, 16)]
)
def test_what_a_loop_of_constants_counts(first: int, end: int, step: int) -> None:
    rounds = range(first, end, step)
    counted, crew, sides = built(lambda thread, n: (first, end, step))
    assert counted == ((rounds[0], rounds[-1]) if rounds else None)
    assert crew == (EVERYBODY if len(rounds) > 1 else None)
    assert sides == (None if rounds else (0, EVERYBODY))


@pytest.mark.parametrize("unreached", [False, True])
def test_a_loop_that_nobody_comes_to_counts_nothing(unreached: bool) -> None:
    assert built(lambda thread, n: (3, 8, 2), unreached=unreached)[0] == (None if unreached else (3, 7))


@pytest.mark.parametrize(
    ("bounds", "rounds"),
    [
        (lambda thread, n: (0, thread, 1), None),
        (lambda thread, n: (thread, thread + 3, 1), None),
        (lambda thread, n: (thread, 5, 1), None),
        (lambda thread, n: (0, thread - THREADS, 1), 0),
        (lambda thread, n: (thread, 0, 1), 0),
        (lambda thread, n: (thread - 1, 0, 1), None),
        (lambda thread, n: (0, n, 1), "n"),
        (lambda thread, n: (n, n + 2, 1), "n"),
        (lambda thread, n: (n, 5, 1), "n"),
        (lambda thread, n: (0, 8, n), "n"),
    ],
)
def test_loops_of_numbers_of_the_threads_and_of_parameters(bounds: Any, rounds: int | str | None) -> None:
    counted, crew, sides = built(bounds)
    assert counted is None
    assert crew == (EVERYBODY if rounds == "n" else None)
    assert sides == ((0, EVERYBODY) if rounds == 0 else None)
