"""CTAs of an SM, compared with what the toolkit's own header computes, compiled by a C compiler."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from nvbackend.codegen.cubin import Resources
from nvbackend.codegen.looking.occupancy import MULTIPROCESSORS, occupancy, register_limit
from nvbackend.codegen.toolchain import wheel_directories
from nvbackend.isel.target.target import Target
from nvbackend.signature import LaunchBounds

COMPILER = shutil.which("cc") or shutil.which("gcc")
CASES = 400
PROGRAM = r"""
#include <stdio.h>
#include <string.h>
#include "cuda_occupancy.h"
int main(void) {
    int number, threads, registers, is_shared, dynamic;
    unsigned long room, room_threads, reserved;
    while (scanf("%d %d %d %d %d %lu %lu %lu", &number, &threads, &registers, &is_shared, &dynamic, &room_threads,
                 &room, &reserved) == 8) {
        cudaOccDeviceProp chip; cudaOccFuncAttributes kernel; cudaOccDeviceState state; cudaOccResult result;
        memset(&chip, 0, sizeof chip); memset(&kernel, 0, sizeof kernel);
        memset(&state, 0, sizeof state); memset(&result, 0, sizeof result);
        state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
        chip.computeMajor = number / 10; chip.computeMinor = number % 10;
        chip.maxThreadsPerBlock = 1024; chip.maxThreadsPerMultiprocessor = (int)room_threads;
        chip.regsPerBlock = 65536; chip.regsPerMultiprocessor = 65536; chip.warpSize = 32;
        chip.sharedMemPerBlock = 49152; chip.sharedMemPerMultiprocessor = room; chip.numSms = 100;
        chip.sharedMemPerBlockOptin = room - reserved; chip.reservedSharedMemPerBlock = reserved;
        kernel.maxThreadsPerBlock = 1024; kernel.numRegs = registers; kernel.sharedSizeBytes = (size_t)is_shared;
        kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
        kernel.maxDynamicSharedSizeBytes = room - reserved - is_shared;
        kernel.numBlockBarriers = 1;
        cudaOccMaxActiveBlocksPerMultiprocessor(&result, &chip, &kernel, &state, threads, (size_t)dynamic);
        printf("%d\n", result.activeBlocksPerMultiprocessor);
    }
    return 0;
}
"""


def header() -> Path | None:
    places = [*(folder.parent / "include" for folder in wheel_directories()), Path("/usr/local/cuda/include")]
    return next((place for place in places if (place / "cuda_occupancy.h").exists()), None)


def test_the_toolkit_counts_as_many(tmp_path: Path) -> None:
    folder = header()
    if folder is None or COMPILER is None:
        pytest.skip("no cuda_occupancy.h, or no C compiler, is installed")
    (tmp_path / "main.c").write_text(PROGRAM)
    subprocess.run([COMPILER, "-I", str(folder), "main.c", "-o", "main"], cwd=tmp_path, check=True, timeout=60)
    rng = random.Random(5)
    lines, ours = [], []
    for _ in range(CASES):
        number = rng.choice(sorted(MULTIPROCESSORS))
        room = MULTIPROCESSORS[number]
        threads = rng.choice([32, 64, 96, 128, 160, 256, 384, 512, 1024, rng.randrange(1, 1025)])
        used = Resources("k", registers=rng.randrange(16, 256), shared_bytes=rng.choice([0, 100, 1024, 20000]))
        reserved = 1024 if number >= 80 else 0
        dynamic = rng.choice([0, 1, 127, 128, 4096, rng.randrange(room.shared_bytes - reserved - used.shared_bytes)])
        counted = occupancy(Target.parse(f"sm_{number}"), LaunchBounds(threads, dynamic_shared_bytes=dynamic), used)
        assert counted is not None
        ours.append(counted.ctas)
        kernel = number, threads, used.registers, used.shared_bytes, dynamic
        lines.append(" ".join(map(str, (*kernel, room.threads, room.shared_bytes, reserved))))
    done = subprocess.run(
        [tmp_path / "main"], input="\n".join(lines), capture_output=True, text=True, check=True, timeout=60
    )
    theirs = [int(line) for line in done.stdout.split()]
    assert [case for case in zip(lines, ours, theirs, strict=True) if case[1] != case[2]] == []
    assert len(set(ours)) > 8


def test_what_allows_no_more_is_named() -> None:
    hopper = Target.parse("sm_90a")
    by_registers = occupancy(hopper, LaunchBounds(128), Resources("k", registers=255))
    by_shared = occupancy(hopper, LaunchBounds(128, dynamic_shared_bytes=200_000), Resources("k", registers=32))
    assert str(by_registers) == "2 CTAs an SM, 256 of 2048 threads; registers allow no more"
    assert str(by_shared) == "1 CTA an SM, 128 of 2048 threads; shared memory allows no more"
    assert occupancy(Target.parse("sm_110a"), LaunchBounds(128), Resources("k")) is None


@pytest.mark.parametrize(
    ("threads", "ctas", "limit"), [(32, None, 255), (256, None, 255), (256, 2, 128), (384, 1, 168), (1024, None, 64)]
)
def test_launch_bounds_limit_registers(threads: int, ctas: int | None, limit: int) -> None:
    """65,536 registers over all threads, in units of 8 a thread: PTX ISA 11.4.2 to 11.4.4."""
    assert register_limit(LaunchBounds(threads, min_ctas=ctas)) == limit
    assert register_limit(LaunchBounds(threads, min_ctas=ctas), 72) == min(limit, 72)
