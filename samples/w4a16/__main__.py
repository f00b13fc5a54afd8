"""Y = X @ W^T on Hopper, X in f16 and W of 4 bits with a factor for each 128 along K. Run it as it is."""

from __future__ import annotations

import sys
from functools import partial
from math import prod
from typing import Any

import nvbackend as nvb
from samples.problem import Problem
from samples.problem import main as solve
from samples.w4a16.choice import MULTIPROCESSORS, Choice, choose
from samples.w4a16.weights import BIAS, GROUP, UNIT, pack


def launch(
    loaded: nvb.runtime.LoadedKernel,
    x: Any,
    w: Any,
    scales: Any,
    *others: Any,
    choice: Choice,
    multiprocessors: int = MULTIPROCESSORS,
) -> None:
    """Start the kernel on X (M x K), packed W, factors (K / GROUP x N) and Y (M x N), of whole tiles and groups.

    `others` are what the choice has as a workspace, if anything, and Y. Raises ValueError for other shapes: a part of a
    group would be left out.
    """
    *workspace, y = others
    (m, k), n, words = x.shape, scales.shape[1], prod(w.shape)
    if n % UNIT or k % GROUP or scales.shape[0] != k // GROUP or tuple(y.shape) != (m, n) or words != n * k // 8:
        shapes = f"X {tuple(x.shape)}, W {words} words, factors {tuple(scales.shape)}, Y {tuple(y.shape)}"
        raise ValueError(f"X is M x K, W N x K / 8 words, factors K / {GROUP} x N, Y M x N, N of {UNIT}, not {shapes}")
    needed, given = choice.workspace(m, n, k, multiprocessors), tuple(prod(one.shape) for one in workspace)
    if len(given) != len(needed) or any(size < least for size, least in zip(given, needed, strict=True)):
        raise ValueError(f"{choice} takes a workspace of {needed} elements before Y, not of {given}")
    loaded.launch(choice.grid(m, n, k, multiprocessors), x, w, scales, *others, m, n, k // GROUP)


def problem_for(choice: Choice, m: int, n: int, k: int, multiprocessors: int = MULTIPROCESSORS) -> Problem:
    """Random numbers; a weight is rounded to f16 once, when it is multiplied with its factor."""
    import numpy as np

    random = np.random.default_rng(m + n + k)
    x = random.standard_normal((m, k), np.float32).astype(np.float16)
    numbers = random.integers(0, 16, (n, k))
    scales = random.uniform(0.01, 0.1, (k // GROUP, n)).astype(np.float16)
    weights = (numbers - BIAS).astype(np.float16) * np.repeat(scales, GROUP, 0).T
    expected = x.astype(np.float32) @ weights.astype(np.float32).T
    output = np.full((m, n), np.nan, np.float16)
    sizes = zip(choice.workspace(m, n, k, multiprocessors), (np.float32, np.uint32), strict=False)
    workspace = [np.zeros(size, dtype) for size, dtype in sizes]
    start = partial(launch, choice=choice, multiprocessors=multiprocessors)
    return Problem(choice.kernel, start, (x, pack(numbers), scales, *workspace), expected, output, 2**-10)


def problem(m: int, n: int, k: int) -> Problem:
    """Random numbers for the kernel that is chosen."""
    return problem_for(choose(m, n, k), m, n, k)


def main() -> int:
    return solve(
        __doc__,
        problem,
        sizes="M, N and K",
        multiples=(1, UNIT, GROUP),
        on_the_gpu=(64, 8192, 8192),
        in_the_simulator=(40, 128, 256),
    )


if __name__ == "__main__":
    sys.exit(main())
