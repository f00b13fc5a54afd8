"""Kernels as operators of JAX, through XLA's foreign function interface."""

from __future__ import annotations

import itertools
import os

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, bf16, f32, i32, i64, u8
from nvbackend.jax import op

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # other tests of the machine need the GPU's memory too
jax = pytest.importorskip("jax")
THREADS = 128
_numbers = itertools.count()


@nvb.kernel("sm_80", threads=THREADS)
def scale(k, x: nvb.Pointer(f32, align=4), out: nvb.Pointer(f32, align=4), n: i32, factor: f32):
    at = k.block_id() * THREADS + k.thread_id()
    with k.if_(at < n):
        out[at] = x[at] * factor


@nvb.kernel("sm_80", threads=THREADS)
def add_to(k, total: nvb.Pointer(f32, align=4), x: nvb.Pointer(f32, align=4), n: i32):
    at = k.block_id() * THREADS + k.thread_id()
    with k.if_(at < n):
        total[at] += x[at]


@nvb.kernel("sm_80", threads=32)
def of_types(k, x: nvb.Pointer(bf16, align=2), y: nvb.Pointer(u8, align=1), far: i64, yes: nvb.pred):
    t = k.thread_id()
    y[t] = (x[t].to(f32).to(i32) + k.select(yes, (far >> 33).to(i32), 0)).to(u8)


def blocks(n):
    return (n + THREADS - 1) // THREADS


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def on(place):
    """The device of JAX that the test is for."""
    try:
        return jax.default_device(jax.devices(place)[0])
    except RuntimeError as error:
        pytest.skip(str(error))


PLACES = [pytest.param("cuda", marks=pytest.mark.gpu((8, 0))), "cpu"]


def made(place, kernel, **options):
    """The operator on the GPU, or of arrays on the CPU in the simulator."""
    name = f"test{next(_numbers)}"
    if place == "cpu":
        return op(kernel, name, device="simulator", **options)
    from numba import cuda

    major, minor = cuda.get_current_device().compute_capability[:2]
    return op(kernel, name, target=f"sm_{major}{minor}", **options)


@pytest.mark.parametrize("place", PLACES)
def test_a_result(place) -> None:
    times = made(place, scale, grid=blocks, results={"out": like})
    with on(place):
        x = jax.numpy.arange(300, dtype=jax.numpy.float32)
        assert np.array_equal(times(x, 300, 2.5), np.arange(300, dtype=np.float32) * 2.5)


@pytest.mark.parametrize("place", PLACES)
def test_under_jit_among_operations_of_jax(place) -> None:
    times = made(place, scale, grid=blocks, results={"out": like})

    @jax.jit
    def program(x):
        y = x
        for _ in range(20):
            y = times(y + 1, x.shape[0], 0.5) * 2 - 1
        return y.sum(), times(times(x, x.shape[0], 2.0), x.shape[0], 3.0)

    with on(place):
        for count in (300, 77):
            x = jax.numpy.arange(count, dtype=jax.numpy.float32)
            total, six = program(x)
            assert float(total) == float(np.arange(count).sum())
            assert np.array_equal(six, 6 * np.arange(count))


@pytest.mark.parametrize("place", PLACES)
def test_a_mutated_array_is_returned(place) -> None:
    add = made(place, add_to, grid=blocks, mutates=("total",))
    with on(place):
        total, x = jax.numpy.ones(300, "float32"), jax.numpy.arange(300, dtype="float32")
        assert np.array_equal(add(total, x, 300), np.arange(300) + 1)
        assert np.array_equal(jax.jit(lambda a, b: add(a, b, 300) + a)(total, x), np.arange(300) + 2)
        assert np.array_equal(total, np.ones(300))


@pytest.mark.parametrize("place", PLACES)
def test_types_of_arrays_and_numbers(place) -> None:
    call = made(place, of_types, grid=1, results={"y": lambda x: jax.ShapeDtypeStruct(x.shape, "uint8")})
    with on(place):
        x = jax.numpy.arange(32, dtype="bfloat16")
        assert np.asarray(call(x, -5 << 33, True)).tolist() == [(t - 5) % 256 for t in range(32)]


@pytest.mark.parametrize("place", PLACES)
def test_a_wrong_array_is_a_diagnostic_in_xlas_error(place) -> None:
    times = made(place, scale, grid=blocks, results={"out": like})
    with on(place), pytest.raises(Exception, match=r"launch\.dtype"):
        times(jax.numpy.arange(300), 300, 2.5).block_until_ready()


def test_wrong_operators() -> None:
    with pytest.raises(DiagnosticError, match=r"operator\.mutates.*writes total"):
        op(add_to, "wrong", grid=blocks)
    times = made("cpu", scale, grid=blocks, results={"out": like})
    x = np.zeros(3, np.float32)
    with pytest.raises(DiagnosticError, match=r"operator\.declared.*called with 2 arguments"):
        times(x, 300)
    with pytest.raises(DiagnosticError, match=r"operator\.declared.*not a number"):
        jax.jit(lambda x, n: times(x, n, 2.0))(x, 3)
