"""Runs problems one after the other: `python -m tests.sanitizer.worker KERNELS NAMES`, usually under the sanitizer.

KERNELS is the folder of their compiled kernels, and NAMES a file with a name in each line. An error on a GPU leaves
nothing that can still be launched, so the worker ends after the first problem that raises.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from samples.problem import Problem
from samples.program import Device
from tests.sanitizer.kernels import kernel_of
from tests.sanitizer.lines import Step, say
from tests.sanitizer.problems import problems


def run(name: str, make: Callable[[], Problem], kernels: Path, device: Device) -> bool:
    """Run a problem, and say how it goes; whether another one can be run after it."""
    say(Step.BEGUN, name)
    try:
        problem, compiled = make(), kernel_of(kernels, name)
        say(Step.LAUNCHED, name)
        error = problem.error(compiled, device)
    except Exception as raised:  # noqa: BLE001 (whatever it is, it is this problem's)
        say(Step.RAISED, name, f"{type(raised).__name__}: {raised}")
        return False
    told = f"an error of {error:.1e} of the largest value, where {problem.tolerance:.1e} is tolerated"
    say(Step.RIGHT if error < problem.tolerance else Step.WRONG, name, told)
    return True


def main(every: Mapping[str, Callable[[], Problem]] | None = None) -> None:
    """Run some of these problems, by default of those of the samples."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("kernels", type=Path)
    arguments.add_argument("names", type=Path)
    arguments.add_argument("--until", type=float, default=float("inf"), help="begin no problem after this time")
    arguments.add_argument("--simulate", action="store_true", help="run in the simulator")
    chosen = arguments.parse_args()
    known, device = every or problems(1), Device("--simulate asks for it" if chosen.simulate else None)
    for name in chosen.names.read_text().splitlines():
        if time.time() >= chosen.until or not run(name, known[name], chosen.kernels, device):
            break


if __name__ == "__main__":
    main()
