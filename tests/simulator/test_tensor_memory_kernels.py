"""The corpus's kernels of tcgen05 in the simulator: no GPU of the tests runs them, NumPy says what they must give."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from tests.corpus import tensor_memory as corpus
from tests.dry_run.registry import scenes

F16, F32 = np.float16, np.float32
through_tensor_memory = next(scene for scene in scenes() if scene.name == "through_tensor_memory")


def run(kernel, grid, *given, seed=0):
    compiled = kernel.compile(cache=nvb.Cache.disabled(), assemble=False)
    nvb.runtime.load(compiled, device="simulator", seed=seed).launch(grid, *given)


def small(seed, *shape):
    """Small whole numbers, whose products' sums are exact."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(F16)


@pytest.mark.parametrize(("tiles", "steps", "grid"), [(1, 1, 1), (5, 3, 2), (4, 6, 1)])
def test_accumulators_in_turns(tiles, steps, grid):
    a, b, c = small(0, 128 * tiles, 64 * steps), small(1, 128, 64 * steps), np.zeros((128 * tiles, 128), F32)
    run(corpus.accumulators_in_turns, grid, a, b, c, tiles, steps)
    assert np.array_equal(c, a.astype(F32) @ b.astype(F32).T)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_commit_publishes_what_was_done_before_it(seed):
    a, b, c = small(0, 128, 192), small(1, 128, 192), np.zeros((128, 128), F32)
    run(corpus.stage_given_back_late, 1, a, b, c, seed=seed)
    assert np.array_equal(c, a.astype(F32) @ b.astype(F32).T)


def test_weights_in_tensor_memory():
    q, keys, values, c = small(0, 128, 64), small(1, 128, 64), small(2, 128, 64), np.zeros((128, 64), F32)
    q = q * F16(0.0625)
    run(corpus.weights_in_tensor_memory, 1, q, keys, values, c)
    weights = np.exp2(q.astype(F32) @ keys.astype(F32).T).astype(F16)
    assert np.allclose(c, weights.astype(F32) @ values.astype(F32), rtol=2e-3, atol=0.5)


@pytest.mark.parametrize(("steps", "seed"), [(1, 0), (1, 1), (2, 4), (5, 3)])
def test_a_pair_of_ctas(steps, seed):
    """The seeds are those by which commits come so late that a CTA must wait for its peer's."""
    a, b, c = small(0, 256, 64 * steps), small(1, 128, 64 * steps), np.zeros((256, 128), F32)
    run(corpus.pair_of_ctas, 2, a, b, c, steps, seed=seed)
    assert np.array_equal(c, a.astype(F32) @ b.astype(F32).T)


@pytest.mark.parametrize("blocks", [1, 7, 200])
def test_work_of_clusters_that_have_not_started(blocks):
    """More CTAs than run together: those that have not started are taken over or start later, each once."""
    x = np.arange(128 * blocks, dtype=F32)
    run(corpus.work_of_clusters_that_have_not_started, blocks, x)
    assert np.array_equal(x, 2 * np.arange(128 * blocks, dtype=F32))


def test_stores_read_their_registers_at_once():
    """The loop loads the next values to the same registers while the stores before are still in flight."""
    (launch,) = through_tensor_memory.launches()
    x, out = launch.arguments
    result = out.fresh()
    run(through_tensor_memory.kernel, 1, x, result)
    assert out.is_right(result)
