"""Functions of CUDA's mathematical library, as NVRTC compiles them, in the simulator: against Python's own.

They are long sequences of fma, conversions and integer arithmetic on bits, where a wrong last bit does not stay alone.
The errors are those that CUDA's programming guide gives for each function.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from nvbackend.simulator import Simulator

TEXT = Path(__file__).parents[1] / "ptx" / "foreign" / "nvrtc_numbers.ptx"
COUNT = 300


@pytest.fixture(scope="module")
def module():
    return Simulator().load(TEXT.read_text())


def run(module, name, a, b):
    out = np.zeros_like(a)
    module.launch(name, grid=(3,), block=(128,), args=[a, b, out, np.int32(COUNT)])
    return out


def given(dtype, seed=0):
    rng = np.random.default_rng(seed)
    return tuple((rng.standard_normal(COUNT) * 10 ** rng.uniform(-3, 2, COUNT)).astype(dtype) for _ in range(2))


REALS = {
    # the function of float64, the type, and the error in units of the last place
    "atan2_f64": (math.atan2, np.float64, 2),
    "fmod_f64": (math.fmod, np.float64, 0),
    "exp_f64": (lambda a, _: math.exp(a) if a < 700 else math.inf, np.float64, 1),
    "pow_f32": (lambda a, b: abs(a) ** b if abs(b * math.log(abs(a))) < 80 else None, np.float32, 4),
    "erf_f32": (lambda a, _: math.erf(a), np.float32, 2),
    "exp_f16": (lambda a, _: math.exp(a) if -9 < a < 11 else None, np.float16, 1),
}


@pytest.mark.parametrize("name", REALS)
def test_functions_of_the_library(module, name):
    function, dtype, most = REALS[name]
    a, b = given(dtype)
    found = run(module, name, a, b)
    for x, y, got in zip(a.tolist(), b.tolist(), found.tolist(), strict=True):
        exact = function(x, y)
        if exact is not None and math.isfinite(exact):
            # Python's own function is off by half a unit of float64 as well.
            assert abs(got - exact) <= (most + 0.5 * bool(most)) * float(np.spacing(dtype(abs(exact)))), (x, y)
        elif exact is not None:
            assert got == exact


def test_a_fused_product_of_halves(module):
    a, b = given(np.float16, 1)
    exact = np.maximum(a.astype(np.float64) * b + a, 0.0).astype(np.float16)
    assert np.array_equal(run(module, "fma_f16", a, b), exact)


def words(dtype, seed=2):
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    return tuple(rng.integers(0, 256, COUNT * kind.itemsize).astype(np.uint8).view(kind) for _ in range(2))


def test_packed_integers(module):
    a, b = words(np.uint32)
    x, y = (one.view(np.uint8).astype(int) for one in (a, b))
    average = ((x + y + 1) >> 1).astype(np.uint8).view(np.uint32)
    assert np.array_equal(run(module, "average_u8x4", a, b), average)
    assert run(module, "difference_u8x4", a, b).tolist() == np.abs(x - y).reshape(-1, 4).sum(axis=1).tolist()
    x, y = (one.view(np.int16).astype(int) for one in (a, b))
    clamped = np.clip(x + y, -32768, 32767).astype(np.int16).view(np.uint32)
    assert np.array_equal(run(module, "saturating_s16x2", a, b), clamped)


def test_integers(module):
    a, b = words(np.uint32)
    found = run(module, "high_u32", a, b).tolist()
    for x, y, got in zip(a.tolist(), b.tolist(), found, strict=True):
        assert got == (x * y >> 32) ^ (((y << 32 | x) << 11) >> 32 & 0xFFFFFFFF)
    a, b = words(np.int64)
    for x, y, got in zip(a.tolist(), b.tolist(), run(module, "remainder_s64", a, b).tolist(), strict=True):
        size = abs(x) % abs(y >> 20 | 1)
        assert got == (size if x >= 0 else -size)
