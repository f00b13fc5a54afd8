"""How long the Hopper GEMM takes from Python to a cubin: each stage in fresh processes, without imports and cache.

It then times kernels that were compiled before: from the cache on disk in fresh processes, without the imports, and
once more in the same process.

    PYTHONPATH=. python benchmarks/build_time.py [--repeats N]

Prints the least and the median of each stage, and the sums that the project promises.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

IR_TARGET_S, PTX_TARGET_S = 0.1, 0.3
ONE_BUILD = """
import importlib, json, time
start = time.perf_counter()
import nvbackend
from samples import hopper_gemm
for module in ("builder.kernel", "codegen.stages.compiling", "codegen.llvm"):
    importlib.import_module(f"nvbackend.{module}")
import llvmlite.binding
imported = time.perf_counter()
compiled = hopper_gemm.gemm.compile(cache=nvbackend.Cache.disabled(), assemble=None)
print(json.dumps({"import": imported - start, **compiled.timings, "wall": time.perf_counter() - imported}))
"""
DEFINITIONS = {
    "hopper_gemm": ("samples.hopper_gemm", "gemm"),
    "gemm.wide": ("samples.gemm.wide", "wide"),
    "gemm.thin": ("samples.gemm.thin", "thin"),
    "w4a16": ("samples.w4a16.clusters", "clusters"),
    "attention": ("samples.attention.forward", "attention"),
}
"""Kernels that are compiled again: the module, and the name of the definition."""
AGAIN = """
import json, time
import nvbackend
from {module} import {name} as definition
seconds = []
for _ in range({calls}):
    start, used = time.perf_counter(), time.process_time()
    definition.compile(assemble=None)
    seconds.append((time.perf_counter() - start, time.process_time() - used))
print(json.dumps(seconds))
"""
CALLS = 1000
FROM_DISK_TARGET_S, AGAIN_TARGET_S = 0.01, 0.0001
PYTHON_TO_IR = ("build",)
PYTHON_TO_PTX = ("build", "verify", "optimise", "print")


def measure() -> dict[str, float]:
    """Seconds by stage of one build in a process of its own."""
    done = subprocess.run([sys.executable, "-c", ONE_BUILD], check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def again(module: str, name: str, repeats: int) -> list[list[tuple[float, float]]]:
    """Seconds of calls of `compile`, and of the processor, in processes that find the kernel on disk."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "program.py")
        program.write_text(AGAIN.format(module=module, name=name, calls=CALLS))
        # A program that just changed may not be what runs, so nothing is taken from disk for it.
        os.utime(program, (0, 0))
        command = [sys.executable, str(program)]
        # As installed packages do, this one has bytecode, even where the environment turns that off.
        around = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        around |= {"NVBACKEND_CACHE": folder, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        done = [
            subprocess.run(command, check=True, capture_output=True, text=True, env=around) for _ in range(repeats + 1)
        ]
    return [json.loads(each.stdout) for each in done[1:]]


def print_again(repeats: int) -> None:
    """Print how long it takes to get kernels that were compiled before."""
    print(f"\n{'again':<16}{'least':>10}{'median':>10}{'processor':>12}   (ms)")
    for kernel, place in DEFINITIONS.items():
        runs = again(*place, repeats)
        calls = {
            "from disk": ([run[0] for run in runs], FROM_DISK_TARGET_S),
            "once more": ([call for run in runs for call in run[1:]], AGAIN_TARGET_S),
        }
        for what, (seconds, wanted) in calls.items():
            walls = [wall for wall, _ in seconds]
            least, median = min(walls) * 1e3, statistics.median(walls) * 1e3
            used = min(used for _, used in seconds) * 1e3
            print(f"{kernel:<16}{least:10.3f}{median:10.3f}{used:12.3f}   {what}, wanted: under {wanted * 1e3:g}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    runs = [measure() for _ in range(repeats)]
    stages = {name: [run[name] for run in runs] for name in runs[0]}
    sums = {"Python to IR": (PYTHON_TO_IR, IR_TARGET_S), "Python to PTX": (PYTHON_TO_PTX, PTX_TARGET_S)}
    print(f"{'stage':<16}{'least':>10}{'median':>10}   (ms)")
    for name, seconds in stages.items():
        print(f"{name:<16}{min(seconds) * 1e3:10.1f}{statistics.median(seconds) * 1e3:10.1f}")
    for name, (parts, wanted) in sums.items():
        totals = [sum(run[part] for part in parts) for run in runs]
        least, median = min(totals) * 1e3, statistics.median(totals) * 1e3
        print(f"{name:<16}{least:10.1f}{median:10.1f}   wanted: under {wanted * 1e3:.0f}")
    print_again(repeats)


if __name__ == "__main__":
    main()
