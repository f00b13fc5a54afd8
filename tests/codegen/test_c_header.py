"""The header of C: a compiler takes it, and its functions ask the driver for what the kernel was built with.

The driver is a program of this test: it prints what it is called with. The header of the toolkit is not needed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import bf16, f16, f32, i32, s64, u8, u64

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler is installed")

STUB = r"""
#ifndef STUB_CUDA_H
#define STUB_CUDA_H
#include <stdint.h>
#include <stdio.h>
typedef unsigned long long CUdeviceptr;
typedef void *CUmodule, *CUfunction, *CUstream;
typedef enum { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1, CUDA_ERROR_MISALIGNED_ADDRESS = 716 } CUresult;
typedef struct { uint64_t opaque[16]; } CUtensorMap;
typedef int CUtensorMapDataType, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion;
typedef int CUtensorMapFloatOOBfill;
enum { CU_TENSOR_MAP_DATA_TYPE_UINT8 = 0, CU_TENSOR_MAP_DATA_TYPE_FLOAT16 = 6 };
enum { CU_TENSOR_MAP_INTERLEAVE_NONE = 0, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0 };
enum { CU_TENSOR_MAP_SWIZZLE_NONE = 0, CU_TENSOR_MAP_SWIZZLE_32B = 1, CU_TENSOR_MAP_SWIZZLE_64B = 2 };
enum { CU_TENSOR_MAP_SWIZZLE_128B = 3 };
enum { CU_TENSOR_MAP_L2_PROMOTION_L2_128B = 2, CU_TENSOR_MAP_L2_PROMOTION_L2_256B = 3 };
enum { CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14 };
enum { CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6 };
typedef struct {
    int id;
    union { struct { unsigned x, y, z; } clusterDim; int programmaticStreamSerializationAllowed; } value;
} CUlaunchAttribute;
typedef struct {
    unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute *attrs;
    unsigned numAttrs;
} CUlaunchConfig;
static CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    *module = (void *)image;
    return CUDA_SUCCESS;
}
static CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    printf("function %s\n", name);
    *function = module;
    return CUDA_SUCCESS;
}
static CUresult cuModuleUnload(CUmodule module) { return module ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }
static inline CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value) {
    printf("attribute %d %d\n", attribute, value);
    return function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
static inline void list(const char *name, const uint64_t *values, unsigned count) {
    printf(" %s", name);
    while (count--) printf(" %llu", (unsigned long long)*values++);
}
static inline CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, uint32_t rank, void *address,
    const uint64_t *extents, const uint64_t *strides, const uint32_t *box, const uint32_t *steps,
    CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2,
    CUtensorMapFloatOOBfill fill) {
    unsigned at;
    printf("map aligned %d type %d at %llx", (int)((uintptr_t)map % 64), type, (unsigned long long)(uintptr_t)address);
    list("extents", extents, rank);
    list("strides", strides, rank - 1);
    for (at = 0; at < rank; at++) printf(" box %u step %u", box[at], steps[at]);
    printf(" swizzle %d l2 %d rest %d %d\n", swizzle, l2, interleave, fill);
    map->opaque[0] = 0xABCD;
    return CUDA_SUCCESS;
}
static inline CUresult cuTensorMapEncodeIm2col(CUtensorMap *map, CUtensorMapDataType type, uint32_t rank, void *address,
    const uint64_t *extents, const uint64_t *strides, const int *lower, const int *upper, uint32_t channels,
    uint32_t pixels, const uint32_t *steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
    CUtensorMapL2promotion l2, CUtensorMapFloatOOBfill fill) {
    printf("pixels type %d at %llx", type, (unsigned long long)(uintptr_t)address);
    list("extents", extents, rank);
    list("strides", strides, rank - 1);
    printf(" lower %d %d upper %d %d channels %u pixels %u", lower[0], lower[1], upper[0], upper[1], channels, pixels);
    printf(" step %u swizzle %d l2 %d rest %d %d\n", steps[3], swizzle, l2, interleave, fill);
    map->opaque[0] = 0xEF;
    return CUDA_SUCCESS;
}
static CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **arguments, void **extra);
#endif
"""
LAUNCH = r"""
static CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **arguments, void **extra) {
    printf("launch %u %u %u of %u %u %u shared %u stream %d", config->gridDimX, config->gridDimY, config->gridDimZ,
        config->blockDimX, config->blockDimY, config->blockDimZ, config->sharedMemBytes, config->hStream != 0);
    for (unsigned at = 0; at < config->numAttrs; at++)
        if (config->attrs[at].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            printf(" cluster %u %u %u", config->attrs[at].value.clusterDim.x,
                config->attrs[at].value.clusterDim.y, config->attrs[at].value.clusterDim.z);
        else
            printf(" attribute %d: %d", config->attrs[at].id,
                config->attrs[at].value.programmaticStreamSerializationAllowed);
    printf("\n");
    (void)extra;
    (void)arguments;
    ARGUMENTS
    return function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
"""
Tile = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(32, 64))]
Bytes = Annotated[nvb.TensorMap, nvb.TensorMap(nvb.e2m1, box=(8, 4, 64), swizzle=0)]
Pixels = Annotated[
    nvb.TensorMap, nvb.TensorMap(f16, box=(16, 64), swizzle=128, im2col=nvb.Im2col(4, (-1, -2), (-3, -4)))
]


@nvb.kernel("sm_80", threads=(32, 4))
def numbers(
    k: nvb.KernelBuilder,
    int: nvb.Pointer[f32],  # noqa: A002
    stream: i32(minimum=-4, maximum=64, multiple_of=4),  # type: ignore[valid-type]
    half: bf16,  # type: ignore[valid-type]
    byte: u8,  # type: ignore[valid-type]
    wide: u64(maximum=10_000_000_000),  # type: ignore[valid-type]
    real: nvb.f64,  # type: ignore[valid-type]
    low: s64,  # type: ignore[valid-type]
) -> None:
    k.barrier.sync()


@nvb.kernel("sm_90a", threads=64, cluster=(2, 1, 1))
def maps(k: nvb.KernelBuilder, a: Tile, b: Bytes, c: Pixels, a_map: nvb.Pointer[f32]) -> None:
    k.shared(nvb.u8, 60_000)
    k.griddepcontrol("wait")
    k.barrier.sync()


def compiled_c(tmp_path: Path, header: str, text: str, *, includes: str = "") -> list[str]:
    """The lines that a program prints, which the compiler takes without a warning."""
    assert COMPILER is not None
    (tmp_path / "cuda.h").write_text(STUB)
    (tmp_path / "kernel.h").write_text(header)
    (tmp_path / "main.c").write_text(f'{includes}#include "kernel.h"\n{text}')
    flags = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", str(tmp_path)]
    subprocess.run([COMPILER, *flags, "main.c", "-o", "main"], cwd=tmp_path, check=True, timeout=60)
    return subprocess.run(
        [tmp_path / "main"], capture_output=True, text=True, check=True, timeout=60
    ).stdout.splitlines()


@needs_compiler
def test_arguments_reach_the_driver(tmp_path: Path) -> None:
    """Names that C has for itself get an underscore; asserted values and alignments are compared."""
    arguments = r"""
    printf("%llx %d %x %x %llu %g %lld\n", *(CUdeviceptr *)arguments[0], *(int *)arguments[1],
        *(unsigned short *)arguments[2], *(unsigned char *)arguments[3],
        *(unsigned long long *)arguments[4], *(double *)arguments[5], *(long long *)arguments[6]);"""
    text = r"""
int main(void) {
    numbers_kernel kernel;
    int values[] = {-4, 64, 60, -8, 68, 2}, at;
    printf("%d\n", numbers_load(&kernel));
    for (at = 0; at < 6; at++)
        printf("%d\n", numbers_launch(&kernel, 3, 2, 1, 0, 0x1000, values[at], 0x3f80, 200, 10000000000u, 2.5, -7));
    printf("%d\n", numbers_launch(&kernel, 3, 2, 1, 0, 0x1008, 4, 0x3f80, 200, 1, 2.5, -7));
    printf("%d\n", numbers_launch(&kernel, 3, 2, 1, 0, 0x1000, 4, 0x3f80, 200, 10000000001u, 2.5, -7));
    printf("%d\n", numbers_unload(&kernel));
    return 0;
}"""
    header = numbers.compile(assemble=False).c_header()
    printed = compiled_c(tmp_path, header, LAUNCH.replace("ARGUMENTS", arguments) + text)
    launch = "launch 3 2 1 of 32 4 1 shared 0 stream 0"
    launched = [line for value in (-4, 64, 60) for line in (launch, f"1000 {value} 3f80 c8 10000000000 2.5 -7", "0")]
    assert printed == ["function numbers", "0", *launched, "1", "1", "1", "716", "1", "0"]


@needs_compiler
def test_tensor_maps_are_encoded(tmp_path: Path) -> None:
    """Innermost dimension first, strides in bytes; those that are 0 are of rows without gaps."""
    text = r"""
int main(void) {
    maps_kernel kernel;
    maps_a a = {0x10000, {512, 64}, {0}};
    maps_b b = {0x20000, {5, 6, 128}, {0, 256}};
    maps_c c = {0x30000, {2, 30, 40, 256}, {0, 0, 0}};
    printf("%d\n", maps_load(&kernel));
    printf("%d\n", maps_launch(&kernel, 4, 1, 1, (CUstream)&kernel, &a, &b, &c, 0x40));
    return 0;
}"""
    arguments = r"""
    printf("%llx %llx %llx %llx\n", *(unsigned long long *)arguments[0], *(unsigned long long *)arguments[1],
        *(unsigned long long *)arguments[2], *(unsigned long long *)arguments[3]);"""
    header = maps.compile(assemble=False).c_header()
    printed = compiled_c(tmp_path, header, LAUNCH.replace("ARGUMENTS", arguments) + text)
    box, walk = "box 32 step 1 box 4 step 1 box 8 step 1", "lower -2 -1 upper -4 -3 channels 64 pixels 16"
    assert printed == [
        "function maps",
        "attribute 8 60000",
        "0",
        "map aligned 0 type 6 at 10000 extents 64 512 strides 128 box 64 step 1 box 32 step 1 swizzle 3 l2 2 rest 0 0",
        f"map aligned 0 type 0 at 20000 extents 128 6 5 strides 256 1536 {box} swizzle 0 l2 2 rest 0 0",
        f"pixels type 6 at 30000 extents 256 40 30 2 strides 512 20480 614400 {walk} step 1 swizzle 3 l2 3 rest 0 0",
        "launch 4 1 1 of 64 1 1 shared 60000 stream 1 cluster 2 1 1 attribute 6: 1",
        "abcd abcd ef 40",
        "0",
    ]


def words(header: str) -> bytes:
    return b"".join(int(word, 16).to_bytes(8, "little") for word in re.findall(r"0x([0-9a-f]+)u[,\n]", header))


def test_the_image_is_the_cubin_or_the_ptx(tmp_path: Path) -> None:
    compiled = numbers.compile()
    assert compiled.cubin is not None
    data = words(compiled.c_header())
    assert data.startswith(compiled.cubin.data) and len(data) - len(compiled.cubin.data) < 8
    data = words(numbers.compile(assemble=False).c_header())
    assert data.rstrip(b"\0").decode() == compiled.ptx and data.endswith(b"\0")
    compiled.save(tmp_path / "numbers.nvb")
    assert nvb.load_compiled(tmp_path / "numbers.nvb").c_header() == compiled.c_header()


def toolkit() -> Path | None:
    """The folder with the toolkit's own cuda.h."""
    places = [Path(sysconfig.get_paths()["purelib"]) / "nvidia" / name / "include" for name in ("cu13", "cuda_runtime")]
    return next((each for each in (*places, Path("/usr/local/cuda/include")) if (each / "cuda.h").exists()), None)


@needs_compiler
@pytest.mark.parametrize("language", ["c", "c++"])
def test_the_toolkits_header_has_all_of_it(tmp_path: Path, language: str) -> None:
    folder = toolkit()
    if folder is None:
        pytest.skip("no cuda.h is installed")
    (tmp_path / "kernel.h").write_text(maps.compile(assemble=False).c_header())
    (tmp_path / "main.c").write_text('#include "kernel.h"\n')
    command = [COMPILER, "-x", language, "-Wall", "-Werror", "-fsyntax-only", "-I", str(folder), "main.c"]
    done = subprocess.run(
        [str(each) for each in command], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


DRIVER = r"""
#include <stdio.h>
#include <stdlib.h>
#include "copied.h"
#define CHECK(call) do { CUresult r = (call); if (r) { printf("%s: %d\n", #call, r); return 1; } } while (0)
static float values[128 * 64], out[64 * 64];
int main(void) {
    CUdevice device; CUcontext context; CUdeviceptr in, to; copied_kernel kernel; int at, wrong = 0;
    CHECK(cuInit(0)); CHECK(cuDeviceGet(&device, 0)); CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    for (at = 0; at < 128 * 64; at++) values[at] = (float)at;
    CHECK(cuMemAlloc(&in, sizeof values)); CHECK(cuMemAlloc(&to, sizeof out));
    CHECK(cuMemcpyHtoD(in, values, sizeof values));
    { copied_a a = {0, {128, 64}, {0}}; a.address = in;
      CHECK(copied_load(&kernel)); CHECK(copied_launch(&kernel, 1, 1, 1, 0, &a, to, 32, 2.0f)); }
    CHECK(cuCtxSynchronize()); CHECK(cuMemcpyDtoH(out, to, sizeof out));
    for (at = 0; at < 64 * 32; at++) wrong += out[at] != 2.0f * values[at / 32 * 64 + at % 32 + 32 * 64];
    printf("wrong %d\n", wrong); CHECK(copied_unload(&kernel));
    return 0;
}
"""


@nvb.kernel("sm_90", threads=32)
def copied(
    k: nvb.KernelBuilder,
    a: Annotated[nvb.TensorMap, nvb.TensorMap(f32, box=(64, 32), swizzle=0)],
    out: nvb.Pointer[f32],
    row: i32(multiple_of=32),  # type: ignore[valid-type]
    factor: f32,  # type: ignore[valid-type]
) -> None:
    tile = k.shared(f32, 64 * 32, align=128)
    full = k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=64 * 32 * 4)
        k.tma.load_box(tile, a, (0, row), full)
    k.mbarrier.wait(full, 0)
    with k.range(64) as i:
        index = i * 32 + k.thread_id()
        out[index] = tile[index] * factor


def test_the_kernel_of_the_program_is_right() -> None:
    """By the simulator: then a wrong number of the program is one of its launcher."""
    a, out = np.arange(128 * 64, dtype=np.float32).reshape(128, 64), np.zeros(64 * 64, np.float32)
    nvb.runtime.load(copied.compile(), device="simulator").launch(1, a, out, 32, 2.0)
    assert (out[: 64 * 32] == 2 * a[32:96, :32].ravel()).all()


def driver() -> str:
    """The file of the driver's library, which this process has loaded: it may be in no folder of the system."""
    assert nvb.runtime.gpu_available()
    maps_of_process = Path("/proc/self/maps").read_text(encoding="utf-8")
    return next(line.split()[-1] for line in maps_of_process.splitlines() if "/libcuda.so" in line)


@pytest.mark.gpu((9, 0))
@needs_compiler
def test_a_program_of_c_runs_it(tmp_path: Path) -> None:
    folder = toolkit()
    if folder is None:
        pytest.skip("no cuda.h is installed")
    (tmp_path / "copied.h").write_text(copied.compile().c_header())
    (tmp_path / "main.c").write_text(DRIVER)
    library = driver()
    command = [str(COMPILER), "-std=c99", "-I", str(folder), "main.c", "-o", "main", library]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    found_there = os.environ | {"LD_LIBRARY_PATH": str(Path(library).parent)}
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=False, timeout=60, env=found_there)
    assert done.stdout == "wrong 0\n", done.stdout
