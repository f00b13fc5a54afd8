"""C = A @ B^T in f16 on Hopper, by the kernel that the model chooses for the shape: `python -m samples.gemm M N K`.

It prints the choice and what was built, multiplies random matrices (on a machine without a GPU in the simulator), and
compares with NumPy. K and N are multiples of 8.
"""

from __future__ import annotations

import sys
from typing import Any

import nvbackend as nvb
from samples.gemm.choice import Choice, choose
from samples.problem import Problem, random_product
from samples.problem import main as solve


def problem_for(choice: Choice, m: int, n: int, depth: int) -> Problem:
    """Random matrices for one of the kernels."""

    def launch(loaded: nvb.runtime.LoadedKernel, a: Any, b: Any, c: Any) -> None:
        grid, last = choice.launch_of(m, n, depth, loaded.device.limits.multiprocessors)
        loaded.launch(grid, a, b, c, *last)

    a, b, expected, output = random_product(m, n, depth)
    return Problem(choice.kernel, launch, (a, b), expected, output, 2**-10)


def problem(m: int, n: int, depth: int) -> Problem:
    """Random matrices for the kernel that the model chooses."""
    choice = choose(m, n, depth)
    print(choice)
    return problem_for(choice, m, n, depth)


def main() -> int:
    return solve(
        __doc__,
        problem,
        sizes="M, N and K",
        multiples=(1, 8, 8),
        on_the_gpu=(1024, 1024, 1024),
        in_the_simulator=(16, 136, 512),
    )


if __name__ == "__main__":
    sys.exit(main())
