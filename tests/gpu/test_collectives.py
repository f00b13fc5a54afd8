"""Reductions and scans of warps, CTAs and clusters, on a GPU and in the simulator, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f16, f32, f64, i32, runtime, s8, s32, s64, u32, u64
from tests.support.devices import ON_DEVICES, target_on

pytestmark = ON_DEVICES
THREADS = 96
ROUNDS = 2
TYPES = {f32: np.float32, f64: np.float64, f16: np.float16, s64: np.int64, u64: np.uint64, s32: np.int32, s8: np.int8}
FUNCTIONS = {
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def cases() -> list[tuple[nvb.ElementType, str]]:
    """Every type with every operation that it has; of small types those that do not overflow by much alone."""
    return [
        (one, name) for one in TYPES for name in FUNCTIONS if name in ("add", "mul", "min", "max") or one.is_integer
    ]


def inputs(element: nvb.ElementType, operation: str, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers whose results are exact in any order."""
    random = np.random.default_rng(len(operation) + element.bits)
    if operation == "mul":
        return random.choice([-1, 1, 1], shape).astype(TYPES[element])
    low, high = (0 if str(element).startswith("u") else -7, 8)
    if element.bits == 64 and element.is_integer:
        return random.integers(low << 50, high << 50, shape).astype(TYPES[element])
    return random.integers(low, high, shape).astype(TYPES[element])


@pytest.mark.parametrize(("element", "operation"), cases(), ids=str)
def test_every_type_and_operation(element, operation, device):
    from numba import cuda

    def body(k, x, of_warp, of_eight, prefix, of_cta, before, n):
        with k.range(n) as turn:
            at = turn * THREADS + k.thread_id()
            value = x[at]
            of_warp[at] = k.warp.reduce(operation, value)
            of_eight[at] = k.warp.reduce(operation, value, width=8)
            prefix[at] = k.warp.scan(operation, value, width=16)
            of_cta[at] = k.cta.reduce(operation, value)
            before[at] = k.cta.scan(operation, value, exclusive=True)

    names = ("x", "of_warp", "of_eight", "prefix", "of_cta", "before")
    body.__annotations__ = {**dict.fromkeys(names, nvb.Pointer[element]), "n": i32}
    x = inputs(element, operation, (ROUNDS, THREADS))
    arrays = [cuda.to_device(np.zeros_like(x)) for _ in names[1:]]
    loaded = runtime.load(nvb.kernel(target_on(device, "sm_80"), threads=THREADS)(body).compile())
    loaded.launch(1, cuda.to_device(x), *arrays, ROUNDS)
    loaded.synchronize()
    function, kind = FUNCTIONS[operation], x.dtype

    def segments(width: int) -> np.ndarray:
        return x.reshape(-1, width)

    whole = [function.reduce(segments(width), axis=1, dtype=kind) for width in (32, 8, THREADS)]
    scans = [function.accumulate(segments(width), axis=1, dtype=kind) for width in (16, THREADS)]
    expected = [
        *(np.repeat(each, width) for each, width in zip(whole[:2], (32, 8), strict=True)),
        scans[0].ravel(),
        np.repeat(whole[2], THREADS),
    ]
    for array, right in zip(arrays[:4], expected, strict=True):
        assert np.array_equal(array.copy_to_host().ravel(), right)
    got = arrays[4].copy_to_host()
    assert np.array_equal(got[:, 1:], scans[1][:, :-1])
    assert np.array_equal(function(got[:, 0], x[:, 0], dtype=kind), x[:, 0])  # the first thread's changes nothing


@nvb.kernel("sm_90a", threads=THREADS)
def by_functions(
    k,
    x: nvb.Pointer[f64],
    mean: nvb.Pointer[f64],
    spread: nvb.Pointer[f64],
    best: nvb.Pointer[i32],
    least: nvb.Pointer[i32],
    bits: nvb.Pointer[u32],
):
    """Welford's mean and variance of a CTA in one pass; arguments; matrices as a scan whose order counts."""
    at = k.block_id() * THREADS + k.thread_id()

    def merge(a: Any, b: Any) -> Any:
        (n, m, v), (o, p, w) = a, b
        total, gap = n + o, p - m
        return total, m + gap * o / total, v + w + gap * gap * n * o / total

    count, middle, squares = k.cta.reduce(merge, (k.const(1, f64), x[at], k.const(0, f64)))
    mean[at], spread[at] = middle, squares / count
    best[at], least[at] = k.cta.argmax(x[at])[1], k.warp.argmin(x[at], k.lane_id(), width=16)[1]
    bits[at] = k.warp.ballot(x[at] > 0) + k.warp.broadcast(k.lane_id(), 3).to(u32)


def test_functions_of_several_values():
    from numba import cuda

    x = np.random.default_rng(5).integers(-4, 5, (2, THREADS)).astype(np.float64)
    x[1, 7:9] = np.nan
    outs = [np.zeros_like(x), np.zeros_like(x), *(np.zeros(x.shape, kind) for kind in (np.int32, np.int32, np.uint32))]
    arrays = [cuda.to_device(one) for one in outs]
    loaded = runtime.load(by_functions.compile())
    loaded.launch(2, cuda.to_device(x), *arrays)
    loaded.synchronize()
    mean, spread, best, least, bits = (one.copy_to_host() for one in arrays)
    np.testing.assert_allclose(mean[0], x[0].mean(), rtol=1e-12)
    np.testing.assert_allclose(spread[0], x[0].var(), rtol=1e-12)
    assert np.isnan(mean[1]).all()
    assert np.array_equal(best, np.repeat(np.nanargmax(x, 1)[:, None], THREADS, 1))
    parts = x.reshape(-1, 16)
    lanes = np.nanargmin(parts, 1) + np.arange(len(parts)) % 2 * 16
    assert np.array_equal(least.ravel(), np.repeat(lanes, 16))
    ballots = [sum(1 << lane for lane in range(32) if warp[lane] > 0) + 3 for warp in x.reshape(-1, 32)]
    assert np.array_equal(bits.ravel(), np.repeat(np.array(ballots, np.uint64).astype(np.uint32), 32))


@nvb.kernel("sm_90a", threads=THREADS, cluster=2)
def of_a_cluster(k, x: nvb.Pointer[s64], out: nvb.Pointer[s64], n: i32):
    with k.range(n) as turn:
        at = (turn * 2 + k.cluster.rank()) * THREADS + k.thread_id()
        out[at] = k.cluster.reduce("max", x[at]) + k.cluster.reduce("add", x[at])


def test_a_cluster_through_distributed_shared_memory():
    from numba import cuda

    x = np.random.default_rng(6).integers(-(1 << 40), 1 << 40, (ROUNDS, 2, THREADS))
    out = cuda.to_device(np.zeros_like(x))
    loaded = runtime.load(of_a_cluster.compile())
    loaded.launch(2, cuda.to_device(x), out, ROUNDS)
    loaded.synchronize()
    right = x.max((1, 2)) + x.sum((1, 2))
    assert np.array_equal(out.copy_to_host(), np.broadcast_to(right[:, None, None], x.shape))


COLUMNS = 256


@nvb.kernel("sm_80", threads=128)
def layer_norm(k, x: nvb.Pointer[f16], weight: nvb.Pointer[f32], y: nvb.Pointer[f16], rows: i32, eps: f32):
    """A row a turn, in the registers of a CTA."""
    with k.range(k.block_id(), rows, k.block_count()) as row:
        columns = [k.thread_id() + part * k.threads for part in range(COLUMNS // 128)]
        values = [x[row * COLUMNS + column].to(f32) for column in columns]
        mean = k.cta.reduce("add", sum(values[1:], values[0])) * (1 / COLUMNS)
        centred = [value - mean for value in values]
        squares = [value * value for value in centred]
        factor = k.math.rsqrt(k.cta.reduce("add", sum(squares[1:], squares[0])) * (1 / COLUMNS) + eps)
        for column, value in zip(columns, centred, strict=True):
            y[row * COLUMNS + column] = (value * factor * weight[column]).to(f16)


@nvb.kernel("sm_80", threads=128)
def softmax(k, x: nvb.Pointer[f16], y: nvb.Pointer[f32], rows: i32):
    """A row a warp."""
    row = k.block_id() * 4 + k.warp_id()
    with k.if_(row < rows):
        columns = [k.lane_id() + part * 32 for part in range(COLUMNS // 32)]
        values = [x[row * COLUMNS + column].to(f32) * 1.4426950408889634 for column in columns]
        most = values[0]
        for value in values[1:]:
            most = k.math.max(most, value)
        most = k.warp.reduce("max", most)
        powers = [k.math.exp2(value - most) for value in values]
        total = k.warp.reduce("add", sum(powers[1:], powers[0]))
        for column, power in zip(columns, powers, strict=True):
            y[row * COLUMNS + column] = power / total


def test_layer_norm(device):
    from numba import cuda

    rows = 3
    random = np.random.default_rng(2)
    x, weight = random.standard_normal((rows, COLUMNS)).astype(np.float16), random.standard_normal(COLUMNS)
    y = cuda.to_device(np.zeros_like(x))
    loaded = runtime.load(layer_norm.compile(target=target_on(device, "sm_80")))
    loaded.launch(2, cuda.to_device(x), cuda.to_device(weight.astype(np.float32)), y, rows, 1e-5)
    loaded.synchronize()
    wide = x.astype(np.float64)
    right = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5) * weight
    np.testing.assert_allclose(y.copy_to_host().astype(np.float64), right, atol=4e-3, rtol=2e-3)


def test_softmax(device):
    from numba import cuda

    rows = 7
    x = np.random.default_rng(3).standard_normal((rows, COLUMNS)).astype(np.float16)
    y = cuda.to_device(np.zeros(x.shape, np.float32))
    loaded = runtime.load(softmax.compile(target=target_on(device, "sm_80")))
    loaded.launch(2, cuda.to_device(x), y, rows)
    loaded.synchronize()
    powers = np.exp(x.astype(np.float64) - x.astype(np.float64).max(1, keepdims=True))
    np.testing.assert_allclose(y.copy_to_host(), powers / powers.sum(1, keepdims=True), rtol=1e-5)


@nvb.kernel("sm_90a", threads=THREADS, cluster=2)
def of_tuples(
    k,
    x: nvb.Pointer[f64],
    sums: nvb.Pointer[f64],
    lows: nvb.Pointer[i32],
    warps: nvb.Pointer[f64],
    clusters: nvb.Pointer[f64],
    before: nvb.Pointer[i32],
):
    at = k.block_id() * THREADS + k.thread_id()
    value = x[at]
    whole = value.to(i32)
    first, second = k.cta.reduce("add", (value, value * value))
    sums[at] = first * 1000 + second
    low, other = k.cta.reduce("min", (whole, -whole))
    lows[at] = low * 1000 + other
    one, two = k.warp.reduce("max", (value, -value))
    warps[at] = one * 1000 + two
    one, two = k.cluster.reduce("add", (value, value * value))
    clusters[at] = one * 1000 + two
    one, two = k.cta.scan("add", (whole, value), exclusive=True)
    before[at] = one * 1000 + two.to(i32)


def test_a_named_operation_takes_a_tuple_one_by_one():
    from numba import cuda

    x = np.random.default_rng(7).integers(-4, 5, (2, THREADS)).astype(np.float64)
    kinds = (np.float64, np.int32, np.float64, np.float64, np.int32)
    arrays = [cuda.to_device(np.zeros(x.shape, kind)) for kind in kinds]
    loaded = runtime.load(of_tuples.compile())
    loaded.launch(2, cuda.to_device(x), *arrays)
    loaded.synchronize()
    sums, lows, warps, clusters, before = (one.copy_to_host() for one in arrays)

    def each(values: Any, width: int) -> np.ndarray:
        return np.repeat(values, width).reshape(x.shape)

    parts = x.reshape(-1, 32)
    assert np.array_equal(sums, each(x.sum(1) * 1000 + (x * x).sum(1), THREADS))
    assert np.array_equal(lows, each(x.min(1) * 1000 - x.max(1), THREADS))
    assert np.array_equal(warps, each(parts.max(1) * 1000 - parts.min(1), 32))
    assert np.array_equal(clusters, each([x.sum() * 1000 + (x * x).sum()], 2 * THREADS))
    assert np.array_equal(before, (np.cumsum(x, 1) - x) * 1001)


def test_bits_of_a_tuple_with_a_float_are_refused():
    k = nvb.KernelBuilder("bits", "sm_80", threads=THREADS)
    with pytest.raises(nvb.DiagnosticError, match=r"value\.operation"):
        k.cta.reduce("xor", (k.thread_id(), k.const(1, f32)))
