"""TMA epilogues of accumulators and of their elements, to tensors of several types, against NumPy."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f16, f32, runtime, s8, s32, u8
from nvbackend.layout import Layout
from tests.support.devices import ON_DEVICES

pytestmark = ON_DEVICES
M, N, K = 128, 128, 32
STORAGE = {f16: np.float16, f32: np.float32, s32: np.int32, s8: np.int8, u8: np.uint8}
CASES = [(f32, f32), (f16, f16), (f16, f32), (s32, s32), (s32, u8), (f32, f16)]
"""Types of accumulators and of tensors."""


def kernel(
    accumulated: nvb.ElementType,
    stored: nvb.ElementType,
    *,
    biased: bool,
    parts: int = 1,
    later: bool = False,
    transposed: bool = False,
):
    """C = A B^T, or with the column added, two warpgroups one below the other, stored at once or after other mma.

    Transposed, the tensor is C^T, and the warpgroups are side by side.
    """
    element, k_extent = (s8, 32) if accumulated is s32 else (f16, 16)

    def body(k, a, b, c):
        mma = k.tiled_mma(nvb.wgmma.mma_async(f"m64n{N}k{k_extent}", element, element, accumulated), (2, 1))
        span = nvb.SwizzleMode.B32
        tiles = [k.shared_tile(layout) for layout in (mma.smem_a(K, swizzle=span), mma.smem_b(K, swizzle=span))]
        for tile, source in zip(tiles, (a, b), strict=True):
            to = k.tensor(tile.address.cast(element), tile.layout.layout)
            rows = k.tensor(source, Layout((tile.layout.rows, K), (K, 1)))
            with k.range(k.thread_id(), tile.layout.rows * K, k.threads) as index:
                to[index // K, index % K] = rows[index // K, index % K]
        k.fence.proxy_async()
        k.barrier.sync()
        warpgroup, acc = k.warpgroup_id(), mma.accumulator()
        output = k.tma_epilogue(c, N, 2, parts=parts, transposed=transposed)
        with k.wgmma.group():
            mma.accumulate(acc, *tiles, warpgroup)
        place = output.reserve((0, warpgroup * 64) if transposed else (warpgroup * 64, 0), warpgroup)
        values = acc
        if biased:
            values = acc.elements(warpgroup) + acc.columns(lambda column: column.to(accumulated), warpgroup)
        if later:
            converted = place.convert(values)
            with k.wgmma.group():
                mma.accumulate(acc, *tiles, warpgroup)
            converted.store()
        else:
            place.store(values)
        output.finish()

    line = min(128, 64 * stored.bits // 8) if transposed else 128
    box = (min(64, N // parts) if transposed else 64, line * 8 // stored.bits)
    matrix = Annotated[nvb.TensorMap, nvb.TensorMap(stored, box=box, swizzle=line)]
    body.__annotations__ = {"a": nvb.Pointer[element], "b": nvb.Pointer[element], "c": matrix}
    return nvb.kernel("sm_90a", threads=256)(body)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("accumulated", "stored"), CASES, ids=str)
def test_accumulators_go_to_tensors_of_each_type(accumulated, stored, biased):
    assert np.array_equal(*products(accumulated, stored, biased=biased))


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("accumulated", "stored", "parts"), [(f32, f32, 4), (s32, s32, 2), (f32, f16, 2)], ids=str)
def test_columns_go_part_by_part_through_a_smaller_buffer(accumulated, stored, parts, biased):
    assert np.array_equal(*products(accumulated, stored, biased=biased, parts=parts))


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("accumulated", "stored"), [(f32, f16), (f32, f32), (s32, u8), (f16, f16)], ids=str)
@pytest.mark.parametrize("parts", [1, 2, 16])
def test_columns_of_accumulators_become_rows_of_a_tensor(accumulated, stored, parts, biased):
    """In one store, or each part as the rows below those of the part before it."""
    assert np.array_equal(*products(accumulated, stored, biased=biased, parts=parts, transposed=True))


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("accumulated", "stored", "parts"), [(f32, f16, 1), (f32, f16, 2), (s32, u8, 1)], ids=str)
def test_what_was_converted_is_stored_after_the_accumulator_has_changed(accumulated, stored, parts, biased):
    assert np.array_equal(*products(accumulated, stored, biased=biased, parts=parts, later=True))


def products(accumulated, stored, **how):
    """The tensor that a kernel has stored, and NumPy's."""
    from numba import cuda

    random = np.random.default_rng(stored.bits)
    factor = np.int8 if accumulated is s32 else np.float16
    low = 0 if stored is u8 else -2
    a, b = (random.integers(low, 2, (count, K)).astype(factor) for count in (M, N))
    c = cuda.to_device(np.zeros((M, N), STORAGE[stored]))
    loaded = runtime.load(kernel(accumulated, stored, **how).compile())
    loaded.launch(1, cuda.to_device(a), cuda.to_device(b), c)
    loaded.synchronize()
    right = a.astype(np.int64) @ b.astype(np.int64).T + how["biased"] * np.arange(N)
    right = right.T if how.get("transposed") else right
    return c.copy_to_host(), right.astype(STORAGE[stored])
