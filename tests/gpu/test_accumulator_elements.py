"""Elements of accumulators with their coordinates, on a GPU and in the simulator, against NumPy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import bf16, f16, f32, i32, runtime, s8, s32
from nvbackend.layout import Layout
from tests.support.devices import ON_DEVICES, target_on

pytestmark = ON_DEVICES
K = 32


@dataclass(frozen=True)
class Case:
    """An instruction over the threads and a tile."""

    target: str
    request: Any
    element: nvb.ElementType
    d: nvb.ElementType
    tile: tuple[int, int]
    threads: int
    how: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.target}-{self.d}-{'x'.join(map(str, self.tile))}-{self.threads}-{self.how}"


def _warps(d: nvb.ElementType) -> Any:
    return nvb.mma.sync("m16n8k16", f16, f16, d)


def _wgmma(n: int, d: nvb.ElementType) -> Any:
    element, k = (s8, 32) if d is s32 else (f16, 16)
    return nvb.wgmma.mma_async(f"m64n{n}k{k}", element, element, d)


CASES = [
    Case("sm_80", _warps(f32), f16, f32, (64, 32), 128, {"warpgroups": (4, 1)}),
    Case(
        "sm_80",
        _warps(f16),
        f16,
        f16,
        (64, 64),
        128,
        {"atom_layout": (4, 1, 1), "permutation": (64, Layout((8, 2), (2, 1)))},
    ),
    Case("sm_80", nvb.mma.sync("m16n8k32", s8, s8, s32), s8, s32, (32, 16), 64, {"warpgroups": (2, 1)}),
    Case("sm_90a", _wgmma(32, f32), f16, f32, (64, 32), 128),
    Case("sm_90a", _wgmma(32, f16), f16, f16, (256, 64), 256, {"warpgroups": (2, 1)}),
    Case("sm_90a", _wgmma(16, s32), s8, s32, (128, 16), 256, {"warpgroups": (2, 1)}),
]


def kernel(case: Case) -> Any:
    """D is A B^T; beside it what elements, rows and columns give."""
    (rows, columns), element = case.tile, case.element
    with_rows = {"a": nvb.Pointer[element], "b": nvb.Pointer[element], "d": nvb.Pointer[case.d]}
    parameters = {**with_rows, "sums": nvb.Pointer[f32], "bounded": nvb.Pointer[bf16]}
    parameters |= {"held": nvb.Pointer[f32], "m": i32, "n": i32}

    def body(k, a, b, d, sums, bounded, held, m, n):
        mma = k.tiled_mma(case.request, **case.how, tile=case.tile)
        of = {
            name: k.tensor(one, Layout((count, K), (K, 1))) for name, one, count in (("a", a, rows), ("b", b, columns))
        }
        place: dict[str, Any] = {}
        if case.target == "sm_80":
            acc = mma.accumulator()
            mma.gemm(acc, mma.load_a(of["a"]), mma.load_b(of["b"]))
        else:
            acc, place = mma.accumulators(), {"warpgroup": k.warpgroup_id()}
            tiles = [k.shared_tile(layout) for layout in (mma.smem_a(K, swizzle=SPAN), mma.smem_b(K, swizzle=SPAN))]
            for tile, source in zip(tiles, of.values(), strict=True):
                fill(k, tile, source)
            k.fence.proxy_async()
            k.barrier.sync()
            with k.wgmma.group():
                mma.accumulate(acc, *tiles, **place)
        for (row, column), value in acc.items(**place):
            d[row * columns + column] = value
        whole = acc.elements(**place).to(f32) + acc.columns(lambda column: column.to(f32), **place)
        whole = whole.where(lambda row, column: column <= row, -1.0) * acc.rows(lambda row: (row % 4).to(f32), **place)
        parts = whole.reduce_rows("add", lanes=False)
        for number, each in enumerate((parts.reduce_lanes("add"), whole.reduce_rows(k.math.max))):
            with k.if_(each.owned()):
                for row, value in each.items():
                    sums[number * rows + row] = value
        inside = k.identity_tensor(case.tile).below(m, n)
        acc.set(acc.map(lambda x: x + x, **place))
        tile = k.tensor(bounded, Layout(case.tile, (columns, 1)))
        for (row, column), value in whole.load(tile, where=inside).to(f32).items():
            held[row * columns + column] = value
        acc.elements(**place).to(f32).store(tile, where=inside, alpha=0.5, beta=2)

    body.__annotations__ = parameters
    return nvb.kernel(case.target, threads=case.threads)(body)


SPAN = nvb.SwizzleMode.B32


def fill(k: nvb.KernelBuilder, tile: Any, source: nvb.Tensor) -> None:
    """Copy rows to a tile in shared memory, element by element."""
    rows, columns = tile.layout.rows, tile.layout.columns
    to = k.tensor(tile.address.cast(tile.layout.element), tile.layout.layout)
    with k.range(k.thread_id(), rows * columns, k.threads) as index:
        to[index // columns, index % columns] = source[index // columns, index % columns]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_elements_are_where_their_coordinates_say(case, device):
    from numba import cuda

    (rows, columns), element = case.tile, case.element
    random = np.random.default_rng(rows + columns)
    storage = {f16: np.float16, s8: np.int8}[element]
    result = {f16: np.float16, f32: np.float32, s32: np.int32}[case.d]
    a, b = (random.integers(-2, 3, (count, K)).astype(storage) for count in (rows, columns))
    d, sums = np.zeros((rows, columns), result), np.zeros((2, rows), np.float32)
    import ml_dtypes

    old = random.integers(-4, 5, (rows, columns)).astype(ml_dtypes.bfloat16)
    to, of, bounded = (cuda.to_device(one) for one in (d, sums, old.view(np.uint16)))
    held = cuda.to_device(np.full((rows, columns), np.nan, np.float32))
    m, n = rows - 8, columns - 8
    loaded = runtime.load(kernel(case).compile(target=target_on(device, case.target)))
    loaded.launch(1, cuda.to_device(a), cuda.to_device(b), to, of, bounded, held, m, n)
    loaded.synchronize()
    product = a.astype(np.int64) @ b.astype(np.int64).T
    assert np.array_equal(to.copy_to_host(), product)
    masked = (
        np.where(np.tri(rows, columns, dtype=bool), product + np.arange(columns), -1) * (np.arange(rows) % 4)[:, None]
    )
    assert np.array_equal(of.copy_to_host()[0], masked.sum(1))
    assert np.array_equal(of.copy_to_host()[1], masked.max(1))
    inside = (np.arange(rows)[:, None] < m) & (np.arange(columns) < n)
    assert np.array_equal(held.copy_to_host(), np.where(inside, old.astype(np.float32), 0))
    expected = old.astype(np.float64)
    expected[:m, :n] = product[:m, :n] + 2 * expected[:m, :n]
    assert np.array_equal(bounded.copy_to_host(), expected.astype(ml_dtypes.bfloat16).view(np.uint16))


def test_rows_of_a_tile_go_with_those_of_a_narrower_one(device):
    """As the sums of scores go with what the scores weigh."""
    from numba import cuda

    @nvb.kernel("sm_80", threads=64)
    def body(k, a: nvb.Pointer[f16], b: nvb.Pointer[f16], d: nvb.Pointer[f32]):
        by_row = Layout((64, K), (K, 1))
        wide, narrow = (k.tiled_mma(_warps(f32), (2, 1), tile=(64, columns)) for columns in (64, 16))
        sums, acc = wide.accumulator(), narrow.accumulator()
        rows = wide.load_a(k.tensor(a, by_row))
        wide.gemm(sums, rows, wide.load_b(k.tensor(b, by_row)))
        narrow.gemm(acc, rows, narrow.load_b(k.tensor(b, Layout((16, K), (K, 1)))))
        weighed = acc.elements() * sums.elements().reduce_rows("add") + acc.rows(1.0)
        weighed.store(k.tensor(d, Layout((64, 16), (16, 1))))

    random = np.random.default_rng(1)
    a, b = (random.integers(-2, 3, (64, K)).astype(np.float16) for _ in range(2))
    d = cuda.to_device(np.zeros((64, 16), np.float32))
    loaded = runtime.load(body.compile(target=target_on(device, "sm_80")))
    loaded.launch(1, cuda.to_device(a), cuda.to_device(b), d)
    loaded.synchronize()
    products = a.astype(np.float32) @ b.astype(np.float32).T
    assert np.array_equal(d.copy_to_host(), products[:, :16] * products.sum(1, keepdims=True) + 1)
