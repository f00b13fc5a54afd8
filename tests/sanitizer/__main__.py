"""Run the kernels that can be chosen under compute-sanitizer: memory, races and barriers, at small shapes.

The status is 0 where all is clean, 1 where it is not or not all was reached, and 2 without a GPU or the sanitizer.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from samples.problem import positive
from tests.sanitizer.heard import FOUND, Outcome, Result
from tests.sanitizer.kernels import compile_all
from tests.sanitizer.problems import ONE_OF, problems
from tests.sanitizer.runs import Runs
from tests.sanitizer.said import Progress, not_clean, table
from tests.support.gpu import why_not
from tests.support.sanitizer import sanitizer

TOOLS = ("memcheck", "racecheck", "synccheck")
WORKER = "tests.sanitizer.worker"
SIMULATOR = "simulator"
"""What stands for the tool where there is none."""
JOBS = min(16, os.cpu_count() or 1)
PORTS = 64
"""For so many workers side by side: the sanitizer has ten unless more are asked for."""


def parsed() -> argparse.Namespace:
    arguments = argparse.ArgumentParser(prog="python -m tests.sanitizer", description=__doc__)
    arguments.add_argument("--tool", action="append", choices=TOOLS, help="again for several; default memcheck")
    arguments.add_argument("--only", default="", metavar="TEXT", help="problems whose name has this text")
    arguments.add_argument("--all", action="store_true", help=f"all tiles of other types, not one of {ONE_OF}")
    arguments.add_argument("--jobs", type=positive, default=JOBS, metavar="N", help="workers, and compiling processes")
    arguments.add_argument("--seconds", type=float, metavar="S", help="begin no problem after so long")
    arguments.add_argument("--limit", type=float, default=120, metavar="S", help="of a problem, default 120")
    arguments.add_argument("--simulate", action="store_true", help="run in the simulator, without the sanitizer")
    arguments.add_argument("--list", action="store_true", help="print the names of the problems")
    chosen = arguments.parse_args()
    chosen.names = [name for name in problems(1 if chosen.all else ONE_OF) if chosen.only in name]
    if not chosen.names:
        arguments.error(f"no problem's name has {chosen.only!r}: --list prints them")
    return chosen


def command(tool: str, kernels: Path, until: float, names: Path, *, program: str = WORKER) -> list[str]:
    """That of a worker."""
    worker = [sys.executable, "-m", program, str(kernels), str(names), "--until", str(until)]
    if tool == SIMULATOR:
        return [*worker, "--simulate"]
    options = {"tool": tool, "error-exitcode": FOUND, "print-limit": 0, "require-cuda-init": "no"}
    options |= {"max-connections": PORTS} | ({"report-api-errors": "no"} if tool == "memcheck" else {})
    return [str(sanitizer()), *(word for name, value in options.items() for word in (f"--{name}", str(value))), *worker]


def missing() -> str:
    """Why nothing can be run here; empty where it can."""
    if reason := why_not((9, 0)):
        return f"the kernels need a GPU: {reason}"
    return "" if sanitizer() else "compute-sanitizer is not installed: COMPUTE_SANITIZER may name it"


def run(chosen: argparse.Namespace, tools: Iterable[str], folder: Path) -> dict[str, list[Result]]:
    """The results of each tool."""
    began = time.time()
    until = began + chosen.seconds if chosen.seconds is not None else float("inf")
    kernels = folder / "kernels"
    kernels.mkdir()
    simulate = tools == [SIMULATOR]
    names, reasons = compile_all(kernels, chosen.names, jobs=chosen.jobs, until=until, simulate=simulate)
    sys.stderr.write(f"{len(names)} of {len(chosen.names)} kernels compiled in {time.time() - began:.0f} s\n")
    results = {}
    for tool in tools:
        runs = Runs(partial(command, tool, kernels, until), folder, jobs=chosen.jobs, limit=chosen.limit, until=until)
        ended = {one.name: one for one in runs.run(names, Progress(tool, len(names)))}
        ended |= {name: Result(name, Outcome.FAILED, (why,)) for name, why in reasons.items()}
        results[tool] = [ended.get(name, Result(name, Outcome.NOT_REACHED)) for name in chosen.names]
    return results


def main() -> int:
    chosen = parsed()
    if chosen.list:
        sys.stdout.write("".join(f"{name}\n" for name in chosen.names))
        return 0
    if not chosen.simulate and (reason := missing()):
        sys.stderr.write(f"{reason}\n")
        return 2
    tools = [SIMULATOR] if chosen.simulate else list(dict.fromkeys(chosen.tool or TOOLS[:1]))
    with tempfile.TemporaryDirectory() as folder:
        results = run(chosen, tools, Path(folder))
    sys.stdout.write("\n".join((*table(results), *not_clean(results))) + "\n")
    return 0 if all(one.outcome is Outcome.CLEAN for some in results.values() for one in some) else 1


if __name__ == "__main__":
    sys.exit(main())
