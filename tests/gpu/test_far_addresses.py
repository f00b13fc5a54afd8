"""Elements whose distance in bytes passes the type of their index, on a GPU: where they are is where NumPy has them."""

from __future__ import annotations

import numpy as np
import pytest

from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.row.types import f32, i32, u8
from nvbackend.layout import Layout
from nvbackend.signature import Parameter, Pointer

pytestmark = pytest.mark.gpu((9, 0))

FAR = (1 << 29) + 8
"""Elements of f32 that are more than 2^31 bytes away, a multiple of the 16 bytes that an array starts at."""


def launched(kernel, *arrays):
    from nvbackend import runtime

    loaded = runtime.load(kernel.compile())
    loaded.launch(1, *arrays)
    loaded.synchronize()


@pytest.fixture(scope="module")
def large():
    """Two blocks of `FAR` elements of f32 and a warp's; a wrapped distance ends in the first of them."""
    from numba import cuda

    return cuda.device_array(2 * FAR + 32, np.float32)


@pytest.mark.parametrize("constant", [False, True])
def test_an_index_past_two_gigabytes(large, constant):
    from numba import cuda

    parameters = [Parameter("x", Pointer(f32)), Parameter("at", Pointer(i32))]
    k = KernelBuilder("far", "sm_90", threads=32, parameters=parameters)
    x, at = k.arguments
    x[(k.const(FAR, i32) if constant else at[0]) + k.thread_id()] = k.thread_id().to(f32)
    large[2 * FAR :].copy_to_device(np.full(32, -1, np.float32))
    launched(k.finish(), large[FAR:], cuda.to_device(np.array([FAR], np.int32)))
    assert np.array_equal(large[2 * FAR :].copy_to_host(), np.arange(32, dtype=np.float32))


def test_a_coordinate_of_a_large_static_stride(large):
    k = KernelBuilder("tensor", "sm_90", threads=32, parameters=[Parameter("x", Pointer(f32))])
    rows = k.tensor(k.arguments[0], Layout((32, 1 << 25), (1 << 25, 1)))
    rows[k.thread_id(), 3] = k.thread_id().to(f32)
    launched(k.finish(), large)
    for row in (0, 1, 16, 31):
        assert large[(row << 25) + 3 : (row << 25) + 4].copy_to_host()[0] == row


def test_indices_of_eight_bits():
    from numba import cuda

    parameters = [Parameter("x", Pointer(f32)), Parameter("at", Pointer(u8))]
    k = KernelBuilder("bytes", "sm_90", threads=32, parameters=parameters)
    x, at = k.arguments
    x[at[k.thread_id()]] = k.thread_id().to(f32)
    places = np.random.default_rng(0).permutation(256)[:32].astype(np.uint8)
    out = cuda.to_device(np.zeros(256, np.float32))
    launched(k.finish(), out, cuda.to_device(places))
    wanted = np.zeros(256, np.float32)
    wanted[places] = np.arange(32)
    assert np.array_equal(out.copy_to_host(), wanted)


def test_indices_of_eight_bits_in_shared_memory():
    from numba import cuda

    parameters = [Parameter("out", Pointer(f32)), Parameter("at", Pointer(u8))]
    k = KernelBuilder("shared_bytes", "sm_90", threads=256, parameters=parameters)
    out, at = k.arguments
    kept = k.shared(f32, 256)
    kept[k.thread_id()] = k.thread_id().to(f32)
    k.barrier.sync()
    out[k.thread_id()] = kept[at[k.thread_id()]]
    places = np.random.default_rng(1).permutation(256).astype(np.uint8)
    result = cuda.to_device(np.zeros(256, np.float32))
    launched(k.finish(), result, cuda.to_device(places))
    assert np.array_equal(result.copy_to_host(), places.astype(np.float32))


def test_a_gemm_whose_matrix_passes_four_gigabytes():
    """The last tile of rows of A lies past 2^31 elements and 2^32 bytes; only its products are looked at."""
    from numba import cuda

    from nvbackend import runtime
    from samples import turing_gemm

    depth = 1 << 16
    m, n = (1 << 31) // depth + turing_gemm.TILE_M, turing_gemm.TILE_N
    random = np.random.default_rng(2)
    tile, other = (random.integers(-2, 3, (rows, depth)).astype(np.float16) for rows in (turing_gemm.TILE_M, n))
    a, c = cuda.device_array((m, depth), np.float16), cuda.device_array((m, n), np.float32)
    a[-len(tile) :].copy_to_device(tile)
    loaded = runtime.load(turing_gemm.gemm.compile(target="sm_90"))
    turing_gemm.launch(loaded, a, cuda.to_device(other), c)
    loaded.synchronize()
    got = c[-len(tile) :].copy_to_host()
    assert np.array_equal(got, tile.astype(np.float32) @ other.astype(np.float32).T)
