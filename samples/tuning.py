"""What `--tune` does: measures every kernel that a sample chooses from, and says how wrong its choice is.

Launches are those of `nvb.tune`: from a CUDA graph, over so many sets of operands that none is in L2. The measurements
are kept on disk.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import nvbackend as nvb
from samples.problem import Problem
from samples.turns import BEYOND_L2, MOST, rounds_for, turns_for

ROUNDS, REPEATS, WARMUP = 14, 2, 6
SHOWN = 8
"""Rows of the table, besides the model's choice."""
JOBS = min(16, os.cpu_count() or 1)
"""Processes that compile."""


@dataclass(frozen=True)
class Candidate:
    """A kernel, its launch over a problem's inputs and output on a stream, and the microseconds of a model, if any."""

    kernel: nvb.KernelDefinition
    prepare: Callable[[nvb.runtime.LoadedKernel, tuple[Any, ...], Any], nvb.runtime.PreparedLaunch]
    microseconds: float | None = None


@dataclass(frozen=True)
class How:
    """What the user may ask for: only so many candidates, the first ones, and processes that compile."""

    most: int | None = None
    jobs: int = JOBS

    @classmethod
    def asked(cls, **how: Any) -> How:
        """What was asked for by name; None is nothing."""
        return cls(**{name: value for name, value in how.items() if value is not None})


def on_the_gpu(array: Any) -> Any:
    """A copy of NumPy's array."""
    from numba import cuda

    return cuda.to_device(array)


class Operands:
    """A problem's arrays on the GPU, in several sets; made when they are first asked for, with the stream."""

    def __init__(self, make: Callable[[], Problem]) -> None:
        self._make = make
        self._right: Any = None
        """The numbers that were right before: equal ones are."""

    @cached_property
    def problem(self) -> Problem:
        return self._make()

    @cached_property
    def stream(self) -> Any:
        """None without a GPU, where `nvb.tune` says what is missing."""
        if not nvb.runtime.gpu_available():
            return None
        from numba import cuda

        return cuda.stream()

    @cached_property
    def sets(self) -> list[tuple[Any, ...]]:
        """The inputs and the output of each."""
        arrays = (*self.problem.inputs, self.problem.output)
        turns = turns_for(sum(array.nbytes for array in arrays))
        return [tuple(map(on_the_gpu, arrays)) for _ in range(turns)]

    def prepare(self, candidate: Candidate, loaded: nvb.runtime.LoadedKernel) -> list[nvb.runtime.PreparedLaunch]:
        """A launch over each set, again and again, with outputs that are wrong before."""
        for *_, output in self.sets:
            output.copy_to_device(self.problem.output)
        launches = [candidate.prepare(loaded, arrays, self.stream) for arrays in self.sets]
        return launches * rounds_for(len(launches)) if self.stream else launches

    def are_right(self) -> bool:
        """Whether the output of every set is NumPy's."""
        return all(self._is_right(output.copy_to_host()) for *_, output in self.sets)

    def _is_right(self, numbers: Any) -> bool:
        if self._right is not None and bytes_equal(self._right, numbers):
            return True
        if not self.problem.error_of(numbers) < self.problem.tolerance:
            return False
        self._right = numbers
        return True


def bytes_equal(a: Any, b: Any) -> bool:
    """Whether two arrays of one shape have the same bytes."""
    return bool((a.view("uint8") == b.view("uint8")).all())


def tune(what: str, candidates: Mapping[str, Candidate], make: Callable[[], Problem], how: How) -> int:
    """Measure the candidates, of which the first is the sample's choice, and print a table; 0 where all are right.

    `what` names the problem that `make` makes, with all that times depend on. Raises what `nvb.tune` raises.
    """
    taken = dict(list(candidates.items())[: how.most])
    operands = Operands(make)
    workers = max(1, min(how.jobs, len(taken)))
    # A fork of a process with a CUDA context has a broken one.
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _be_silent) as executor:
        tuned = nvb.tune(
            {name: candidate.kernel for name, candidate in taken.items()},
            prepare=lambda name, loaded: operands.prepare(taken[name], loaded),
            check=lambda _: operands.are_right(),
            key=(what, BEYOND_L2, MOST),
            executor=executor,
            progress=True,
            rounds=ROUNDS,
            repeats=REPEATS,
            warmup=WARMUP,
            stream=operands.stream,
        )
    left_out = f", the first of {len(candidates)}" if len(taken) < len(candidates) else ""
    when = "measured now" if tuned.measured else "as measured before"
    print(f"{what} on {tuned.kernel.device.limits.name}: {len(taken)} candidates{left_out}, {when}")
    print("\n".join(table(tuned, {name: candidate.microseconds for name, candidate in taken.items()})))
    return 1 if tuned.failed else 0


def _be_silent() -> None:
    """A candidate that spills is slow, which its time says: warnings would be in the midst of the progress."""
    warnings.simplefilter("ignore", nvb.DiagnosticWarning)


def table(tuned: nvb.Tuned, model: Mapping[str, float | None]) -> Iterator[str]:
    """The fastest candidates, the choice, which the model has first, and how far off they were."""
    took = {name: 1e3 * timing.median for name, timing in tuned.timings.items()}
    ranked, choice = sorted(took, key=lambda name: took[name]), next(iter(model))
    for name, error in tuned.failed.items():
        yield f"left out: {name}: {error.diagnostics[0].message}"
    against = took.get(choice)
    yield f"{'us':>9} {'of choice':>10} {'model, us':>10}"
    for place, name in enumerate(ranked):
        if place < SHOWN or name == choice:
            ratio = "" if against is None else f"{took[name] / against:.3f}"
            said = model[name]
            shown = "" if said is None else f"{said:.1f}"
            yield f"{took[name]:9.1f} {ratio:>10} {shown:>10} {'*' if name == choice else ' '} {name}"
    if against is None:
        yield f"The choice, {choice}, is left out."
        return
    place, best = ranked.index(choice) + 1, took[ranked[0]]
    yield f"The choice (*) is number {place} of {len(ranked)}: it takes {against / best:.3f} of the least time."
    off = {name: said / took[name] - 1 for name in ranked if (said := model[name]) is not None}
    if off:
        half, most = statistics.median(map(abs, off.values())), max(off.values(), key=abs)
        yield f"The model is off by {off[choice]:+.1%} for it, by {half:.1%} or less for half, by {most:+.1%} at most."
