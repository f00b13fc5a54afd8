"""The corpus on a GPU, against NumPy: what is verified without a word is also right."""

from __future__ import annotations

import numpy as np
import pytest

from tests.corpus import attention, copies, rings, shared
from tests.support.devices import ON_DEVICES

pytestmark = ON_DEVICES

GPU = "sm_90"
F16, F32, I32, U32 = np.float16, np.float32, np.int32, np.uint32


def run(kernel, grid, *given):
    """Launch it; what each array is afterwards, in order. Scalars are Python's numbers.

    What older chips have is compiled for this one: their machine code does not run on it.
    """
    from numba import cuda

    from nvbackend import runtime

    here = str(kernel.target).startswith(GPU)
    loaded = runtime.load(kernel.compile(target=None if here else GPU))
    arguments = [cuda.to_device(one) if isinstance(one, np.ndarray) else one for one in given]
    loaded.launch(grid, *arguments)
    loaded.synchronize()
    return [one.copy_to_host() for one in arguments if hasattr(one, "copy_to_host")]


def small(*shape, kind=F16):
    """Small whole numbers, whose products' sums are exact."""
    return np.random.default_rng(sum(shape)).integers(-3, 4, shape).astype(kind)


def normal(*shape, kind=F32):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(kind)


def product(a, b):
    return a.astype(F32) @ b.astype(F32).T


RINGS = {
    rings.flipped_where_the_index_wraps: (1, 3, 4, 5, 11),
    rings.phases_as_bits_and_a_producer_warp_more: (1, 4, 5, 11),
    rings.two_producers_that_wait_from_the_second_round_on: (1, 2, 3, 8),
    rings.everybody_in_one_warpgroup: (1, 2, 7),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("kernel", "steps"),
    [(kernel, steps) for kernel, cases in RINGS.items() for steps in cases],
    ids=lambda one: getattr(one, "__name__", one),
)
def test_rings(kernel, steps):
    a, b = small(64, 64 * steps), small(64, 64 * steps)[::-1].copy()
    *_, c = run(kernel, 1, a, b, np.zeros((64, 64), F32), steps)
    assert np.array_equal(c, product(a, b))


def test_six_steps_unrolled():
    a, b = small(64, 384), small(64, 384)[::-1].copy()
    *_, c = run(rings.six_steps_unrolled, 1, a, b, np.zeros((64, 64), F32))
    assert np.array_equal(c, product(a, b))


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_rounds_of_stages(rounds):
    a, b = small(64, 256 * rounds), small(64, 256 * rounds)[::-1].copy()
    *_, c = run(rings.rounds_of_stages, 1, a, b, np.zeros((64, 64), F32), rounds)
    assert np.array_equal(c, product(a, b))


@pytest.mark.parametrize(("tiles", "steps"), [(1, 1), (2, 3), (3, 4), (6, 5)])
def test_ping_pong(tiles, steps):
    a, b = small(64 * tiles, 64 * steps), small(64, 64 * steps)
    *_, c = run(rings.ping_pong, 1, a, b, np.zeros((64 * tiles, 64), F32), tiles, steps)
    assert np.array_equal(c, product(a, b))


@pytest.mark.parametrize("kernel", [attention.one_warpgroup, attention.the_next_scores_while_the_last_weights_multiply])
@pytest.mark.parametrize("blocks", [1, 2, 5])
def test_attention(kernel, blocks):
    q, keys, values = normal(128, 64, kind=F16), normal(64 * blocks, 64, kind=F16), normal(64 * blocks, 64, kind=F16)
    keys = keys[::-1].copy()
    *_, found = run(kernel, 2, q, keys, values, np.zeros((128, 64), F32), blocks, float(np.log2(np.e) / 8))
    scores = product(q, keys).astype(np.float64) / 8
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    wanted = weights @ values.astype(np.float64) / weights.sum(axis=1, keepdims=True)
    assert np.allclose(found, wanted, atol=4e-3)


@pytest.mark.parametrize("kernel", [shared.transpose, shared.transpose_with_two_buffers])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_transposes(kernel, count):
    x = normal(32, 32 * count)
    _, y = run(kernel, 1, x, np.zeros((32 * count, 32), F32), 32, count)
    assert np.array_equal(y, x.T)


def test_transpose_warp_by_warp():
    x = normal(4, 32, 32)
    _, y = run(shared.transpose_warp_by_warp, 1, x, np.zeros_like(x))
    assert np.array_equal(y, x.transpose(0, 2, 1))


def test_normalised_rows():
    x = normal(9, 300)
    _, y = run(shared.normalised_rows, 9, x, np.zeros_like(x), 300)
    wide = x.astype(np.float64)
    wanted = (wide - wide.mean(axis=1, keepdims=True)) / wide.std(axis=1, keepdims=True)
    assert np.allclose(y, wanted, atol=1e-5)


def test_sum_in_a_tree():
    x = small(7, 256, kind=F32)
    _, y = run(shared.sum_in_a_tree, 7, x, np.zeros(1, F32))
    assert y[0] == x.sum()


def test_running_sum_and_sort():
    x = np.random.default_rng(1).integers(-1000, 1000, 128).astype(I32)
    assert np.array_equal(run(shared.running_sum, 1, x, np.zeros_like(x))[1], np.cumsum(x))
    x = np.random.default_rng(2).integers(-1000, 1000, 256).astype(I32)
    assert np.array_equal(run(shared.bitonic_sort, 1, x)[0], np.sort(x))


def test_histogram():
    x = np.random.default_rng(3).integers(0, 1000, 5000).astype(U32)
    _, y = run(shared.histogram, 4, x, np.zeros(256, U32), 5000)
    assert np.array_equal(y, np.bincount(x & 255, minlength=256))


def test_counted_by_all_threads():
    x = np.random.default_rng(4).integers(0, 1000, 256).astype(U32)
    _, y = run(shared.counted_by_all_threads, 1, x, np.zeros(2, U32), 200)
    assert list(y) == [(x[:200] & 1).sum(), 200]


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_handed_over_by_named_barriers(count):
    x = normal(count, 64)
    _, y = run(shared.handed_over_by_named_barriers, 1, x, np.zeros_like(x), count)
    assert np.array_equal(y, x[:, ::-1])


def test_work_from_a_counter():
    x = normal(100, 128)
    _, y = run(shared.work_from_a_counter, 16, np.zeros(1, I32), x, 100)
    assert np.array_equal(y, x + 1)


@pytest.mark.parametrize("steps", [1, 2, 3, 9])
def test_cp_async_and_fragments(steps):
    a, b = small(64, 32 * steps), small(64, 32 * steps)[::-1].copy()
    *_, c = run(shared.cp_async_and_fragments, 1, a, b, np.zeros((64, 64), F32), steps)
    assert np.array_equal(c, product(a, b))


@pytest.mark.parametrize("steps", [1, 4, 9])
def test_multicast_by_hand(steps):
    a, b = small(64 * 4, 64 * steps), small(64, 64 * steps)
    *_, c = run(copies.multicast_by_hand, 4, a, b, np.zeros((64 * 4, 64), F32), steps)
    assert np.array_equal(c, product(a, b))


def test_sums_of_a_pair():
    x = small(4, 512, kind=F32)
    _, y = run(copies.sums_of_a_pair, 4, x, np.zeros_like(x))
    assert np.array_equal(y, x + x.reshape(2, 2, 512)[:, ::-1].reshape(4, 512))


@pytest.mark.parametrize("tiles", [1, 2, 5])
def test_epilogue_of_two_buffers(tiles):
    a, b = small(64 * tiles, 64), small(64, 64)
    *_, c = run(copies.epilogue_of_two_buffers, 1, a, b, np.zeros((64 * tiles, 64), F16), tiles)
    assert np.array_equal(c, product(a, b).astype(F16))


@pytest.mark.parametrize("count", [1, 2, 6])
def test_reduced_in_bulk(count):
    x, y = small(count, 512, kind=F32), small(512, kind=F32)
    assert np.array_equal(run(copies.reduced_in_bulk, 1, x, y, count)[1], y + x.sum(axis=0))


@pytest.mark.parametrize("rounds", [1, 4])
def test_four_loaders(rounds):
    a = normal(64 * rounds, 64, kind=F16)
    _, y = run(copies.four_loaders, 1, a, np.zeros((rounds, 2, 64, 8), F16), rounds)
    wanted = a.reshape(rounds, 1, 64, 64)[..., :8]
    assert np.array_equal(y, np.broadcast_to(wanted, y.shape))


def test_rows_prefetched():
    x = normal(11, 1024)
    _, y = run(copies.rows_prefetched, 3, x, np.zeros_like(x), 11)
    wide = x.astype(np.float64)
    assert np.allclose(y, wide / np.sqrt((wide * wide).mean(axis=1, keepdims=True)), rtol=1e-5, atol=1e-6)


def test_convolution():
    height = 3
    x, w = small(1, height, 64, 64), small(64, 9 * 64)
    *_, y = run(copies.convolution, height, x, w, np.zeros((height, 64, 64), F32))
    padded = np.pad(x[0].astype(F32), ((1, 1), (1, 1), (0, 0)))
    taps = [padded[r : r + height, s : s + 64] for r in range(3) for s in range(3)]
    assert np.array_equal(y, np.concatenate(taps, axis=-1) @ w.astype(F32).T)
