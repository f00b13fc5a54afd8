"""Constant memory: tables of every type, read by run-time indices, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f32, i32
from tests.support.devices import ON_DEVICES, target_on

pytestmark = ON_DEVICES
THREADS = 64


def launched(device, kernel, *arrays):
    from numba import cuda

    from nvbackend import runtime

    loaded = runtime.load(kernel.compile(target=target_on(device, "sm_80")))
    placed = [cuda.to_device(array) for array in arrays]
    loaded.launch(1, *placed)
    loaded.synchronize()
    return [array.copy_to_host() for array in placed]


@pytest.mark.parametrize("element", [nvb.f16, nvb.bf16, f32, nvb.f64, nvb.s8, nvb.u16, i32, nvb.s64], ids=str)
def test_a_table_by_run_time_indices(device, element) -> None:
    numbers = [0, 1, -2, 3.5, 100, 7, -128, 127] if element.is_float else [0, 1, 2, 3, 100, 7, 5, 127]

    @nvb.kernel("sm_80", threads=THREADS)
    def kernel(k, index: nvb.Pointer[i32], out: nvb.Pointer[f32]):
        table, t = k.constant.array(numbers, element), k.thread_id()
        out[t] = table[index[t]].to(f32) + table[2].to(f32)

    index = np.random.default_rng(0).integers(0, len(numbers), THREADS).astype(np.int32)
    _, out = launched(device, kernel, index, np.zeros(THREADS, np.float32))
    assert out.tolist() == [numbers[i] + numbers[2] for i in index]


def test_two_tables_of_two_dimensions_in_functions(device) -> None:
    first = np.arange(12, dtype=np.float32).reshape(3, 4) ** 2
    second = [[5, 6], [7, 8]]

    @nvb.function(inline=False)
    def looked_up(k, row: i32, column: i32) -> f32:
        return k.constant.array(first, f32)[row, column]

    @nvb.kernel("sm_80", threads=THREADS)
    def kernel(k, out: nvb.Pointer[f32]):
        t = k.thread_id()
        small, again = k.constant.array(second, i32), k.constant.array(first, f32)
        total = k.var(again[0, 1])
        with k.range(2) as i:
            total += looked_up(k, t % 3, t // 3 % 4) * small[i, t % 2].to(f32)
        out[t] = total

    (out,) = launched(device, kernel, np.zeros(THREADS, np.float32))
    sums = np.sum(second, axis=0)
    assert out.tolist() == [first[0, 1] + first[t % 3, t // 3 % 4] * sums[t % 2] for t in range(THREADS)]
