"""Rows and columns of accumulators that several warps share, on a GPU and in the simulator, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f16, f32, runtime
from tests.support.devices import ON_DEVICES, target_on

pytestmark = ON_DEVICES
WARPS = [((1, 4, 1), (32, 64), {}), ((2, 2, 1), (64, 32), {}), ((1, 4, 1), (16, 64), {"barrier": 1})]


def _run(kernel: Any, *arrays: np.ndarray) -> list[np.ndarray]:
    from numba import cuda

    there = [cuda.to_device(each) for each in arrays]
    loaded = runtime.load(kernel.compile())
    loaded.launch(1, *there)
    loaded.synchronize()
    return [each.copy_to_host() for each in there]


def _write(k: nvb.KernelBuilder, sums: nvb.AxisValues, out: Any, start: Any = 0) -> None:
    with k.if_(sums.owned()):
        for at, value in sums.items():
            out[start + at] = value


def _loaded(of: nvb.TileValues, x: Any, columns: int) -> nvb.TileValues:
    """The elements of a matrix that a thread has of the tile."""
    numbers = iter([x[row * columns + column] for (row, column), _ in of.items()])
    return of.map(lambda _: next(numbers))


def _of_tile(k: nvb.KernelBuilder, x: nvb.TileValues, out: Any, how: dict[str, Any]) -> None:
    """The sum and the maximum of rows, and the sum of columns, one after another."""
    rows = x.shape[0]
    _write(k, x.reduce_rows("add", **how), out)
    _write(k, x.reduce_rows("add", lanes=False).reduce_lanes(k.math.max, **how), out, rows)
    _write(k, x.reduce_columns("add", **how), out, 2 * rows)


def _expected(tile: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """`groups` number the threads that have each column: the maximum is one of their sums."""
    parts = np.stack([tile[:, groups == each].sum(1) for each in np.unique(groups)])
    return np.concatenate([tile.sum(1), parts.max(0), tile.sum(0)])


@pytest.mark.parametrize(("atoms", "tile", "how"), WARPS, ids=str)
def test_warps_of_mma_sync(device, atoms, tile, how):
    rows, columns = tile

    @nvb.kernel(target_on(device, "sm_80"), threads=160 if how else 128)
    def summed(k, x: nvb.Pointer[f32], out: nvb.Pointer[f32]):
        def body():
            mma = k.tiled_mma(nvb.mma.sync("m16n8k16", f16, f16, f32), atom_layout=atoms, tile=tile)
            of = mma.accumulator().elements()
            _of_tile(k, _loaded(of, x, columns), out, how)

        if how:
            with k.if_(k.warp_id() < 4):
                body()
        else:
            body()

    x = np.random.default_rng(0).integers(-9, 9, tile).astype(np.float32)
    _, out = _run(summed, x, np.zeros(2 * rows + columns, np.float32))
    threads = np.arange(columns) // 8 % atoms[1] * 4 + np.arange(columns) % 8 // 2
    assert np.array_equal(out, _expected(x, threads))


def test_warpgroups_side_by_side(device):
    target = target_on(device, "sm_90a")

    @nvb.kernel(target, threads=384)
    def summed(k, x: nvb.Pointer[f32], out: nvb.Pointer[f32]):
        mma = k.tiled_mma(nvb.wgmma.mma_async("m64n32k16", f16, f16, f32), atom_layout=(1, 2, 1), tile=(64, 128))
        with k.if_(k.warpgroup_id() > 0):
            group = k.warpgroup_id() - 1
            acc = mma.accumulators()
            acc.fill(0.0)
            _of_tile(k, _loaded(acc.elements(warpgroup=group), x, 128), out, {"barrier": 7})

    x = np.random.default_rng(1).integers(-9, 9, (64, 128)).astype(np.float32)
    _, out = _run(summed, x, np.zeros(2 * 64 + 128, np.float32))
    threads = np.arange(128) // 32 % 2 * 4 + np.arange(128) % 8 // 2
    assert np.array_equal(out, _expected(x, threads))


def test_warpgroups_with_a_tile_each(device):
    @nvb.kernel(target_on(device, "sm_90a"), threads=256)
    def summed(k, x: nvb.Pointer[f32], out: nvb.Pointer[f32]):
        group = k.warpgroup_id()
        acc = k.wgmma.accumulator(32, f32)
        acc.fill(0.0)
        of = _loaded(acc.elements(), x + group * 2048, 32)
        with k.range(3):
            _write(k, of.reduce_columns("add", barrier=1 + group), out, group * 32)

    x = np.random.default_rng(2).integers(-9, 9, (2, 64, 32)).astype(np.float32)
    _, out = _run(summed, x, np.zeros(64, np.float32))
    assert np.array_equal(out, x.sum(1).ravel())
