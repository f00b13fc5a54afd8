"""Clamps to 0 and 1: NaN is 1 from above first, 0 from below first (PTX ISA 9.7.3, min and max leave out NaN)."""

import re

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f16, f32, runtime, s16, s32
from nvbackend.codegen.sass import disassemble
from tests.support.devices import on_devices

THREADS = 32
CLAMPS = {
    "above first": (lambda k, x: k.math.max(k.math.min(x, 1.0), 0.0), 1.0),
    "above first, turned": (lambda k, x: k.math.max(0.0, k.math.min(1.0, x)), 1.0),
    "chosen": (lambda k, x: chosen(k, x, 0.0), 1.0),
    "chosen, then larger": (lambda k, x: k.math.max(k.select(x < 1.0, x, 1.0), 0.0), 1.0),
    "smaller, then chosen": (lambda k, x: larger(k, k.math.min(x, 1.0)), 1.0),
    "integers first": (lambda k, x: k.math.min(larger_bits(k, x), 1.0), 1.0),
    "below first": (lambda k, x: k.math.min(k.math.max(x, 0.0), 1.0), 0.0),
}


def larger(k, x):
    return k.select(x > 0.0, x, 0.0)


def larger_bits(k, x):
    """The larger of 0 and the integer that has the bits of a number: the number itself, of those that are positive."""
    bits = x.bitcast(s32 if x.type is f32 else s16)
    return k.math.max(bits, 0).bitcast(x.type)


def chosen(k, x, zero):
    smaller = k.select(x < 1.0, x, 1.0)
    return k.select(smaller <= zero, zero, smaller)


def kernel_of(clamp, element):
    @nvb.kernel("sm_90", threads=THREADS)
    def clamped(k, x: nvb.Pointer(element), out: nvb.Pointer(element)):
        t = k.thread_id()
        out[t] = CLAMPS[clamp][0](k, x[t])
        out[t + THREADS] = CLAMPS[clamp][0](k, x[t] * 3.0 + 0.5)

    return clamped


@pytest.mark.parametrize("element", [f16, f32], ids=str)
@pytest.mark.parametrize("clamp", CLAMPS)
def test_only_the_clamp_from_below_first_saturates(clamp, element):
    sass = disassemble(kernel_of(clamp, element).compile(cache=nvb.Cache.disabled()).cubin.data)
    saturates = clamp == "below first"
    assert bool(re.search(r"\w\.SAT\b", sass)) == saturates


@on_devices
@pytest.mark.parametrize(("element", "dtype"), [(f16, np.float16), (f32, np.float32)], ids=str)
@pytest.mark.parametrize("clamp", CLAMPS)
def test_a_clamp_of_nan(clamp, element, dtype):
    from numba import cuda

    x = np.resize(np.array([np.nan, -np.inf, -1.0, -0.25, 0.25, 0.75, 2.0, np.inf], dtype), THREADS)
    out = cuda.to_device(np.full(2 * THREADS, 7, dtype))
    loaded = runtime.load(kernel_of(clamp, element).compile())
    loaded.launch(1, cuda.to_device(x), out)
    loaded.synchronize()
    given = np.concatenate([x, x * dtype(3) + dtype(0.5)])
    expected = np.where(np.isnan(given), dtype(CLAMPS[clamp][1]), np.clip(given, 0, 1))
    np.testing.assert_array_equal(np.asarray(out.copy_to_host()), expected)
