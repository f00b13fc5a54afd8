"""Compiled device functions in kernels of others: numba's, and CUDA C++ by NVRTC and nvJitLink."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.support.linked_functions import CALLER, FUNCTIONS, expected, scaled, stored, sum_of_row
from tests.support.linking import compiled_cuda, linked_cubin, needs_linker

pytestmark = pytest.mark.gpu((8, 0))


def _target():
    from numba import cuda

    major, minor = cuda.get_current_device().compute_capability[:2]
    return f"sm_{major}{minor}"


def test_numba_expands_its_lto_ir(monkeypatch) -> None:
    # numba-cuda 0.30 imports a name that newer releases of NumPy no longer have.
    monkeypatch.setattr(np, "row_stack", np.vstack, raising=False)
    needs_linker()
    from numba import cuda

    target = _target()
    sums, times = sum_of_row.compile(target).numba(lto=True), scaled.compile(target).numba(lto=True)

    @cuda.jit(lto=True)
    def kernel(x, out):
        row = cuda.grid(1)
        total, positive = sums(x[row], x.shape[1])
        out[row] = times(total, positive)

    x = np.random.default_rng(5).integers(-9, 9, (32, 17)).astype(np.float32)
    out = cuda.device_array(32, np.float32)
    kernel[1, 32](cuda.to_device(x), out)
    assert np.array_equal(out.copy_to_host(), x.sum(1) * (x > 0).sum(1))


def test_numba_calls_it(monkeypatch) -> None:
    # numba-cuda 0.30 imports a name that newer releases of NumPy no longer have.
    monkeypatch.setattr(np, "row_stack", np.vstack, raising=False)
    from numba import cuda

    target = _target()
    sums, times = sum_of_row.compile(target).numba(), scaled.compile(target).numba()
    store = stored.compile(target).numba()

    @cuda.jit
    def kernel(x, out, integers):
        row = cuda.grid(1)
        total, positive = sums(x[row], x.shape[1])
        out[row] = times(total, positive)
        store(integers, row)

    x = np.random.default_rng(5).integers(-9, 9, (32, 17)).astype(np.float32)
    out, integers = cuda.device_array(32, np.float32), cuda.device_array(32, np.int32)
    kernel[1, 32](cuda.to_device(x), out, integers)
    assert out.copy_to_host().tolist() == (x.sum(axis=1) * (x > 0).sum(axis=1)).tolist()
    assert integers.copy_to_host().tolist() == [2 * row for row in range(32)]


def test_cuda_cpp_calls_them() -> None:
    needs_linker()
    from cuda.bindings import driver
    from numba import cuda

    target = _target()
    functions = [function.compile(target) for function in FUNCTIONS]
    program = compiled_cuda("".join(each.c_header() for each in functions) + CALLER, target)
    cubin = linked_cubin(target, [program, *(each.ptx for each in functions)])
    x = np.random.default_rng(6).integers(-9, 9, 32).astype(np.float32)
    given, out = cuda.to_device(x), cuda.to_device(np.zeros(64, np.float32))  # which makes the context current

    def done(status, *values):
        assert status == driver.CUresult.CUDA_SUCCESS, status
        return values[0] if values else None

    module = done(*driver.cuModuleLoadData(cubin))
    kernel = done(*driver.cuModuleGetFunction(module, b"caller"))
    addresses = tuple(int(array.device_ctypes_pointer.value) for array in (out, given))
    arguments = ((*addresses, 20), (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int))
    done(*driver.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, 0, arguments, 0))
    done(*driver.cuCtxSynchronize())
    numbers = out.copy_to_host()
    assert numbers[1] == expected(x, 20)
    assert numbers[32:].view(np.int32).tolist() == [2 * t for t in range(32)]
