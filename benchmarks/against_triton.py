"""How long the Hopper GEMM takes from Python to a cubin beside Triton's GEMM of the same tile, each without any cache.

    PYTHONPATH=. python -m benchmarks.against_triton [--repeats N]

A cold process only starts, imports, and compiles. In a warm process each side compiles a second form, with one stage
more. Python to PTX (build, verify, LLVM; without the dry run) and ptxas alone are timed in the same process, on the
same kernel. Programs of Triton import PyTorch for the tensors that they launch on; if PyTorch is installed, its import
is timed, too. Needs Triton, but no GPU.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

OURS = """
import json, sys, time
import nvbackend as nvb
from samples import hopper_gemm

def compiled(stages, **options):
    hopper_gemm.STAGES = stages
    return hopper_gemm.gemm.compile(cache=nvb.Cache.disabled(), **options)

compiled(3)
if len(sys.argv) > 1:
    from nvbackend.codegen.ptxas import assemble

    found = []
    for turn in range(int(sys.argv[1])):
        start = time.perf_counter()
        kernel = compiled(2 + turn % 2)
        whole = time.perf_counter() - start
        start = time.perf_counter()
        compiled(2 + turn % 2, assemble=False, check=False)
        to_ptx = time.perf_counter() - start
        start = time.perf_counter()
        assemble(kernel.ptx, kernel.target)
        ptxas = time.perf_counter() - start
        found.append({"whole": whole, "Python to PTX": to_ptx, "ptxas alone": ptxas})
    print(json.dumps(found))
"""
TRITON = """
import json, sys, time
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

@triton.jit
def gemm(a, b, c, M, N, K, am, bn, cm, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = pid // (GROUP * tiles_n) * GROUP
    rows = min(tiles_m - first, GROUP)
    m, n = first + pid % (GROUP * tiles_n) % rows, pid % (GROUP * tiles_n) // rows
    rm, rn, rk = (m * BM + tl.arange(0, BM)) % M, (n * BN + tl.arange(0, BN)) % N, tl.arange(0, BK)
    at, bt = a + rm[:, None] * am + rk[None, :], b + rn[None, :] * bn + rk[:, None]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        left = tl.load(at, mask=rk[None, :] < K - k * BK, other=0.0)
        right = tl.load(bt, mask=rk[:, None] < K - k * BK, other=0.0)
        total = tl.dot(left, right, total)
        at += BK
        bt += BK
    rm, rn = m * BM + tl.arange(0, BM), n * BN + tl.arange(0, BN)
    inside = (rm[:, None] < M) & (rn[None, :] < N)
    tl.store(c + rm[:, None] * cm + rn[None, :], total.to(tl.float16), mask=inside)

def compiled(stages):
    pointers = dict.fromkeys("abc", "*fp16")
    sizes = dict.fromkeys(("M", "N", "K", "am", "bn", "cm"), "i32")
    tile = {"BM": 128, "BN": 256, "BK": 64, "GROUP": 16}
    by_16 = {(index,): [["tt.divisibility", 16]] for index in range(9)}
    source = ASTSource(gemm, {**pointers, **sizes, **dict.fromkeys(tile, "constexpr")}, tile, by_16)
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 8, "num_stages": stages})
    assert made.asm["cubin"]

compiled(3)
if len(sys.argv) > 1:
    found = []
    for turn in range(int(sys.argv[1])):
        start = time.perf_counter()
        compiled(4 + turn)
        found.append({"whole": time.perf_counter() - start})
    print(json.dumps(found))
"""


def run(program: Path, *arguments: str) -> tuple[float, str]:
    """The seconds of a process, and what it prints; each has a cache of its own, which is empty."""
    with tempfile.TemporaryDirectory() as cache:
        paths = os.pathsep.join(filter(None, sys.path))
        around = {**os.environ, "TRITON_CACHE_DIR": cache, "NVBACKEND_CACHE": cache, "PYTHONPATH": paths}
        around.pop("PYTHONDONTWRITEBYTECODE", None)
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, str(program), *arguments], check=True, stdout=subprocess.PIPE, text=True, env=around
        )
        return time.perf_counter() - start, done.stdout


def line(name: str, seconds: list[float]) -> float:
    """Print a row of the table; the median."""
    median = statistics.median(seconds)
    print(f"{name:<34}{min(seconds) * 1e3:10.1f}{median * 1e3:10.1f}", flush=True)
    return median


def main() -> None:
    """Print the table, and what it is of what it is compared with."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    with tempfile.TemporaryDirectory() as folder:
        texts = {"nvbackend": OURS, "Triton": TRITON}
        if importlib.util.find_spec("torch"):
            texts["Triton and PyTorch"] = f"import torch\n{TRITON}"
        programs = {name: Path(folder, f"program{number}.py") for number, name in enumerate(texts)}
        for name, path in programs.items():
            path.write_text(texts[name])
            run(path)
        cold: dict[str, list[float]] = {name: [] for name in programs}
        for _ in range(repeats):
            for name, path in programs.items():
                cold[name].append(run(path)[0])
        warm = {name: json.loads(run(path, str(repeats))[1]) for name, path in programs.items()}
    print(f"{'':<34}{'least':>10}{'median':>10}   (ms)")
    medians = {name: line(f"cold process, {name}", seconds) for name, seconds in cold.items()}
    wholes = {name: line(f"next form, {name}", [turn["whole"] for turn in turns]) for name, turns in warm.items()}
    parts = {name: line(name, [turn[name] for turn in warm["nvbackend"]]) for name in ("Python to PTX", "ptxas alone")}
    for name in [*programs][1:]:
        print(f"cold process: {medians['nvbackend'] / medians[name]:.3f} of {name}, wanted: at most 0.2")
    print(f"next form: {wholes['nvbackend'] / wholes['Triton']:.3f} of Triton")
    print(f"Python to PTX: {parts['Python to PTX'] / parts['ptxas alone']:.3f} of ptxas, wanted: at most 0.8")


if __name__ == "__main__":
    main()
