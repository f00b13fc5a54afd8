"""All problems by their names: GEMMs, attention, and what the tests of the samples run in the simulator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import nvbackend as nvb
from samples.attention.__main__ import FORMS
from samples.problem import Problem
from tests.samples.test_problems import ELSEWHERE, SMALL, problem_of
from tests.sanitizer.gemms import Named, every_gemm

ONE_OF = 4
"""Of tiles that differ from others by the type or the epilogue alone, one of so many is run if not all are."""
ROWS, HEADS = 216, 2
"""Of attention: in two tiles of queries or more, of which the last one is not full."""
MULTIPROCESSORS = 2
"""So many a chip seems to have, so that a CTA has several tiles, one after the other."""


def attention() -> Named:
    """Every form for every use. Forms for longer rows are the same ones."""
    seen = set()
    for name, use in FORMS.items():
        rows = ROWS // use.unit * use.unit
        for one in use.candidates(rows):
            if (kernel := (replace(use, long=None), one)) not in seen:
                seen.add(kernel)
                yield f"attention {name} {HEADS}x{rows}: {one.label}", partial(use.problem, one, HEADS, rows)


def samples() -> Named:
    """The small sizes of each sample."""
    for name, *size in SMALL:
        if name not in ELSEWHERE:
            yield f"sample {name} {' '.join(map(str, size))}", partial(problem_of, str(name), *size)


class Smaller:
    """A loaded kernel of a chip that has few multiprocessors, as far as a launch can see."""

    def __init__(self, loaded: nvb.runtime.LoadedKernel) -> None:
        self.launch = loaded.launch
        self.device = SimpleNamespace(limits=SimpleNamespace(multiprocessors=MULTIPROCESSORS))


def on_few(make: Callable[[], Problem]) -> Problem:
    """The problem with a launch for few multiprocessors."""
    problem = make()
    start: Any = problem.launch
    return replace(problem, launch=lambda loaded, *arrays: start(Smaller(loaded), *arrays))


def problems(one_of: int = ONE_OF) -> dict[str, Callable[[], Problem]]:
    """What makes each problem, by its name."""
    ours = [*every_gemm(one_of), *attention()]
    every: list[tuple[str, Callable[[], Problem]]] = [
        *((name, partial(on_few, make)) for name, make in ours),
        *samples(),
    ]
    named = dict(every)
    assert len(named) == len(every), "two problems have the same name"
    return named
