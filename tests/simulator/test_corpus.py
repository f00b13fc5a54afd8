"""A kernel of the corpus by other seeds, and kernels of other compilers, against NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend.runtime.simulated import SimulatedBinder, SimulatedDevice
from nvbackend.simulator import Simulator
from nvbackend.simulator.copies.tensor_map import TensorMap
from tests.corpus import rings
from tests.gpu import test_corpus as cases
from tests.support.process import ROOT

FOREIGN = ROOT / "tests" / "ptx" / "foreign"


@pytest.mark.parametrize("seed", range(1, 5))
def test_another_order_gives_the_same_numbers(seed):
    """A seed chooses another order of warps and operations."""
    compiled = rings.flipped_where_the_index_wraps.compile(cache=nvb.Cache.disabled(), assemble=False)
    a, b, c = cases.small(64, 320), cases.small(64, 320)[::-1].copy(), np.zeros((64, 64), np.float32)
    binder = SimulatedBinder(compiled.signature, SimulatedDevice(compiled.target))
    values, bounds = binder.bind((a, b, c, 5), 0).values, compiled.signature.bounds
    module = Simulator().load(compiled.ptx)
    module.launch(compiled.name, block=(bounds.threads,), shared=bounds.dynamic_shared_bytes, args=values, seed=seed)
    assert np.array_equal(c, cases.product(a, b))


def normalised(x):
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("columns", [1, 60, 300])
def test_a_softmax_of_nvrtc(columns):
    text = (FOREIGN / "nvrtc_softmax.ptx").read_text(encoding="utf-8")
    x = np.random.default_rng(columns).standard_normal((5, columns)).astype(np.float32)
    y = np.zeros_like(x)
    Simulator().load(text).launch("softmax", grid=(5,), block=(128,), args=[x, y, columns], shared=4 * columns)
    assert np.allclose(y, normalised(x), atol=1e-6)


def test_a_softmax_of_triton():
    text = (FOREIGN / "triton_softmax.ptx").read_text(encoding="utf-8")
    x = np.random.default_rng(1).standard_normal((5, 1000)).astype(np.float32)
    y = np.zeros_like(x)
    Simulator().load(text).launch("softmax", grid=(5,), block=(128,), args=[x, y, 1000, 1000, 0, 0], shared=64)
    assert np.allclose(y, normalised(x), atol=1e-6)


@dataclass(frozen=True)
class Map:
    """A tensor map over an array, as a launch takes it."""

    array: Any
    box: tuple[int, int]

    @property
    def arrays(self):
        return (self.array,)

    def bytes_of(self, addresses):
        of = self.array
        strides = of.strides[-2::-1]
        return TensorMap(addresses[0], "f16", of.shape[::-1], strides, self.box[::-1], swizzle=128).encode()


@pytest.mark.parametrize("seed", [0, 1])
def test_a_gemm_of_triton_with_wgmma_and_tma(seed):
    text = (FOREIGN / "triton_gemm_tma.ptx").read_text(encoding="utf-8")
    (m, n, k), random = (256, 128, 192), np.random.default_rng(0)
    a, b = (random.integers(-3, 4, (rows, k)).astype(np.float16) for rows in (m, n))
    c = np.zeros((m, n), np.float16)
    maps = [Map(one, (128, 64)) for one in (a, b, c)]
    given = [one for each in maps for one in (each, *each.array.shape, each.array.shape[1], 1)]
    module = Simulator().load(text)
    module.launch("gemm_tma", grid=(2, 1), block=(128,), shared=106528, args=[*given, k, 0, 0], seed=seed)
    assert np.array_equal(c, cases.product(a, b))


def test_a_gemm_of_triton_with_cp_async_and_wgmma():
    """It has no proxy fence between the two, as all that Triton makes of this kind, and is right on a GPU."""
    text = (FOREIGN / "triton_gemm_cp_async.ptx").read_text(encoding="utf-8")
    (m, n, k), random = (96, 96, 80), np.random.default_rng(2)
    a, b = (random.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (k, n)))
    c = np.zeros((m, n), np.float16)
    given = [a, b, c, m, n, k, k, n, n, 0, 0]
    Simulator().load(text).launch("matmul", grid=(2, 2), block=(128,), shared=24576, args=given)
    assert np.array_equal(c, cases.product(a, b.T))


def test_functions_by_address_and_one_that_calls_itself():
    module = Simulator().load((FOREIGN / "nvrtc_function_pointers.ptx").read_text(encoding="utf-8"))
    for index, expected in enumerate((2 * 5, 5 + 1 + 5)):
        x = np.array([5, 7, 9], np.float32)
        module.launch("fn", args=[x, index])
        assert x.tolist() == [expected, 7, 9]
