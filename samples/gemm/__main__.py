"""C = A @ B^T on Hopper, by the kernel that the model chooses for the shape: `python -m samples.gemm [FORM] M N K`.

It prints the choice and what was built, multiplies random matrices (on a machine without a GPU in the simulator), and
compares with NumPy. A form names the types; sums are in f32 or s32. In f16_nn, f16_tn and f16_tt the letters say
whether A is stored M x K (n) or K x M (t), and B K x N (n) or N x K (t); all others are nt. Sizes are any numbers, but
for these three and in a batch rows are multiples of 16 bytes. With `--tune` it measures every kernel that the model
ranks, and says how wrong the model was.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import nvbackend as nvb
from samples.gemm.choice import Choice, candidates
from samples.gemm.forms import FORMS, launch_of, problem_for
from samples.problem import Problem
from samples.problem import main as solve
from samples.tuning import Candidate, How, tune


def ranked(name: str, m: int, n: int, depth: int) -> dict[Choice, float]:
    """The candidates. Ends the program for a shape that none of them multiplies."""
    form = FORMS[name]
    try:
        return candidates(m, n, depth, form.operand, form.result, batches=form.batches, majors=form.majors)
    except ValueError as error:
        raise SystemExit(f"error: {error}") from None


def problem(name: str, m: int, n: int, depth: int) -> Problem:
    """Random matrices for the kernel that the model chooses."""
    choice = next(iter(ranked(name, m, n, depth)))
    return replace(problem_for(choice, m, n, depth, FORMS[name]), choice=choice)


def tuned(name: str, m: int, n: int, depth: int, **how: Any) -> int:
    """Measure all candidates; the exit status."""
    form, said = FORMS[name], ranked(name, m, n, depth)
    first = next(iter(said))

    def candidate(choice: Choice) -> Candidate:
        def prepare(loaded: nvb.runtime.LoadedKernel, arrays: Any, stream: Any) -> nvb.runtime.PreparedLaunch:
            grid, last = launch_of(choice, m, n, depth, loaded.device.limits.multiprocessors, form)
            return loaded.prepare(grid, *arrays, *last, stream=stream)

        return Candidate(choice.kernel, prepare, said[choice])

    return tune(
        f"{name} {m} x {n} x {depth}",
        {choice.label: candidate(choice) for choice in said},
        lambda: problem_for(first, m, n, depth, form),
        How.asked(**how),
    )


def main() -> int:
    return solve(
        __doc__,
        problem,
        sizes="M, N and K",
        on_the_gpu=(1024, 1024, 1024),
        in_the_simulator=(16, 144, 512),
        forms=tuple(FORMS),
        tune=tuned,
    )


if __name__ == "__main__":
    sys.exit(main())
