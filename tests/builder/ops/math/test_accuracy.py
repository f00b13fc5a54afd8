"""The functions of k.math against float64: each within the units in the last place that its docstring states."""

from __future__ import annotations

import numpy as np
import pytest

from nvbackend import bf16, f16, f32, f64, i32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.signature import Parameter, Pointer
from tests.builder.ops.math.exact import EXACT, SPECIAL, distances, drawn
from tests.support.devices import on_devices

THREADS = 256
BOUNDS = {
    "exp": 1.1,
    "exp2": 1.1,
    "log": 1.0,
    "log2": 1.2,
    "log10": 1.1,
    "sin": 1.1,
    "cos": 1.1,
    "tanh": 1.4,
    "erf": 1.1,
    "sigmoid": 2.5,
    "silu": 4.0,
    "sqrt": 0.5,
    "rsqrt": 1.5,
    "reciprocal": 0.5,
}
"""Of the accurate forms: what the docstrings say."""
APPROXIMATE = {
    "exp": (0, 2, 1.2),
    "exp2": (0, 4, 0),
    "log": (2.0**-22, 3, 0),
    "log2": (2.0**-22, 4, 0),
    "log10": (2.0**-23, 3, 0),
    "tanh": (0, 2.0**13, 0),
    "sigmoid": (0, 5, 1.2),
    "silu": (2.0**-119, 6, 1.2),
    "sqrt": (0, 1, 0),
    "rsqrt": (0, 2, 0),
    "reciprocal": (0, 1, 0),
}
"""The absolute error, and the units in the last place: some, and so many for each 1 of the argument.

2**-22 of a result is up to 4 units.
"""


def kernel_of(function, arity, elements=(f32, f32)):
    """A kernel that computes a function of columns of numbers, given and stored as these elements."""
    given, element = elements
    parameters = [Parameter(f"x{place}", Pointer(given)) for place in range(arity)]
    k = KernelBuilder(
        "numbers",
        "sm_90a",
        threads=THREADS,
        parameters=[*parameters, Parameter("out", Pointer(element)), Parameter("n", i32)],
    )
    *arrays, out, n = k.arguments
    place = k.block_id() * THREADS + k.thread_id()
    with k.if_(place < n):
        out[place] = function(k, *(array[place] for array in arrays))
    return k.compile()


def computed(function, *columns, elements=(f32, f32)):
    """What a kernel computes of columns of numbers, given and stored as these elements."""
    from numba import cuda

    from nvbackend import runtime

    given, element = elements
    count = len(columns[0])
    made = cuda.to_device(np.zeros(count, element.numpy_dtype()))
    kernel = runtime.load(kernel_of(function, len(columns), elements))
    held = [cuda.to_device(column.view(given.numpy_dtype())) for column in columns]
    kernel.launch(-(-count // THREADS), *held, made, count)
    kernel.synchronize()
    return np.array(made.copy_to_host())


@pytest.mark.gpu((9, 0))
@pytest.mark.parametrize("name", [*BOUNDS, "pow"])
def test_a_gpu_and_the_simulator_give_the_same_bits(name):
    """Of accurate forms: they are made of operations that both round in one way."""
    from nvbackend import runtime

    columns = pairs(1024) if name == "pow" else [drawn(name, 20_000, seed=9)]
    accepts = {} if name == "erf" else {"approx": False}

    def function(k, *values):
        return getattr(k.math, name)(*values, **accepts)

    simulated = np.zeros(len(columns[0]), np.float32)
    kernel = runtime.load(kernel_of(function, len(columns)), device="simulator")
    kernel.launch(-(-len(simulated) // THREADS), *columns, simulated, len(simulated))
    on_gpu = computed(function, *columns)
    nan = np.isnan(on_gpu) & np.isnan(simulated)
    assert np.flatnonzero(~nan & (on_gpu.view(np.uint32) != simulated.view(np.uint32))).tolist() == []


def assert_within(name, bound, columns, **options):
    got = computed(lambda k, *values: getattr(k.math, name)(*values, **options), *columns)
    with np.errstate(all="ignore"):
        exact = EXACT[name](*(column.astype(np.float64) for column in columns))
    off = distances(got, exact)
    worst = int(np.argmax(off))
    assert off[worst] <= bound, (name, [column[worst] for column in columns], got[worst], exact[worst])


@on_devices
@pytest.mark.parametrize("count", [512, pytest.param(100_000, marks=pytest.mark.exhaustive(seconds=20))])
@pytest.mark.parametrize("name", BOUNDS)
def test_an_accurate_function_is_within_its_bound(name, count):
    accepts = {} if name == "erf" else {"approx": False}
    assert_within(name, BOUNDS[name], [drawn(name, count, seed=1)], **accepts)


def pairs(count):
    """Bases and exponents: special ones in every pair, powers that are numbers, and any bits."""
    rng = np.random.default_rng(2)
    special = np.concatenate([SPECIAL[:: len(SPECIAL) // 12], np.array([1, -1, 2, -2, 3, -3, 0.5, 2.5], np.float32)])
    bases, exponents = (column.ravel() for column in np.meshgrid(special, special))
    base = np.exp2(rng.uniform(-140, 127, count))
    near = 1 + rng.uniform(-1e-3, 1e-3, count)
    x = np.concatenate([bases, base, near, rng.uniform(-10, 10, count), drawn("", count, 3)])
    exponent = rng.uniform(-150, 150, count) / np.log2(base)
    y = [exponents, exponent, rng.uniform(-1e5, 1e5, count), rng.integers(-40, 40, count), drawn("", count, 4)]
    return x.astype(np.float32), np.concatenate(y).astype(np.float32)


@on_devices
@pytest.mark.parametrize("count", [256, pytest.param(50_000, marks=pytest.mark.exhaustive(seconds=20))])
def test_a_power_is_within_its_bound(count):
    assert_within("pow", 1.3, pairs(count), approx=False)


@on_devices
@pytest.mark.parametrize("name", APPROXIMATE)
def test_an_approximation_is_within_its_bound(name):
    absolute, units, each = APPROXIMATE[name]
    x = drawn(name, 4096, seed=5)
    x = x[np.isfinite(x) & ((np.abs(x) >= 2.0**-100) & (np.abs(x) <= 2.0**100))]
    with np.errstate(all="ignore"):
        exact = EXACT[name](x.astype(np.float64))
    x, exact = (column[(np.abs(exact) >= 2.0**-126) & (np.abs(exact) < 2.0**127)] for column in (x, exact))
    got = computed(lambda k, value: getattr(k.math, name)(value, approx=True), x)
    unit = np.ldexp(1.0, np.frexp(exact)[1] - 24)
    off = np.abs(got.astype(np.float64) - exact)
    wrong = np.flatnonzero(~(off <= np.maximum(absolute, (units + each * np.abs(x.astype(np.float64))) * unit)))
    assert [(x[place], got[place], exact[place]) for place in wrong[:3]] == []


@on_devices
def test_gelu_is_near_by_approximations_too():
    x = np.linspace(-4, 12, 1001).astype(np.float32)
    got = computed(lambda k, value: k.math.gelu(value, approx=True), x)
    wide = x.astype(np.float64)
    exact = wide * (1 + np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3))) / 2
    assert np.abs(got - exact).max() <= 2.0**-20


@on_devices
def test_a_power_is_near_by_approximations_too():
    base, exponent = (column.ravel() for column in np.meshgrid(np.linspace(0.1, 9, 40), np.linspace(-6, 5, 25)))
    columns = [base.astype(np.float32), exponent.astype(np.float32)]
    got = computed(lambda k, *values: k.math.pow(*values, approx=True), *columns)
    np.testing.assert_allclose(got, np.power(*(one.astype(np.float64) for one in columns)), rtol=2.0**-18)


@on_devices
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_a_wave_of_the_machine_is_near_from_minus_pi_to_pi(name):
    x = np.random.default_rng(6).uniform(-np.pi, np.pi, 2048).astype(np.float32)
    got = computed(lambda k, value: getattr(k.math, name)(value, approx=True), x)
    assert np.abs(got - getattr(np, name)(x.astype(np.float64))).max() <= 2.0**-20.5


@on_devices
@pytest.mark.parametrize(("form", "bound"), [("erf", 2.0**-23), ("tanh", 2.0**-21)])
def test_gelu_is_near_in_units_of_its_argument(form, bound):
    x = np.concatenate([np.linspace(-12, 12, 4001), np.array([0.0, -0.0, 2.0**-140, 1e30, -1e30, np.inf])])
    x = x.astype(np.float32)
    got = computed(lambda k, value: k.math.gelu(value, form=form, approx=False), x)
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        inside = np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)
        part = EXACT["erf"](wide / np.sqrt(2)) if form == "erf" else np.tanh(inside)
        exact = wide * (1 + part) / 2
        off = np.abs(got.astype(np.float64) - exact) / np.abs(wide)
    ends = ~np.isfinite(exact) | (wide == 0)
    assert np.array_equal(got[ends], exact[ends].astype(np.float32))
    assert off[~ends & (np.abs(wide) > 1e-30)].max() <= bound


@on_devices
@pytest.mark.parametrize("element", [f16, bf16], ids=str)
@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sqrt", "rsqrt", "sigmoid"])
def test_halves_are_computed_in_f32_and_rounded(name, element):
    """Of f16 within half a unit and what f32 adds to it."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    kind = np.float16 if element is f16 else ml_dtypes.bfloat16
    bits = np.arange(0, 1 << 16, 7, dtype=np.uint16)
    x = bits.view(kind)
    made = computed(lambda k, value: getattr(k.math, name)(value, approx=False), x, elements=(element, element))
    with np.errstate(all="ignore"):
        got = made.view(kind).astype(np.float64)
        exact = EXACT[name](x.astype(np.float64))
        wanted = exact.astype(np.float32).astype(kind).astype(np.float64)
        next_one = np.maximum(np.abs(wanted) * (2.0**-10 if element is f16 else 2.0**-7), 2.0**-24)
        same = (got == wanted) | (np.isnan(got) & np.isnan(wanted)) | (np.abs(got - wanted) <= next_one)
    assert np.flatnonzero(~same).tolist() == []
    assert np.count_nonzero(got == wanted) >= 0.99 * np.count_nonzero(~np.isnan(wanted))


ROUNDED = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint, "abs": np.abs}


@on_devices
@pytest.mark.parametrize("element", [f16, f32, f64], ids=str)
def test_rounding_to_integers_and_signs(element):
    kind = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[element.name]
    with np.errstate(all="ignore"):
        x = np.concatenate([SPECIAL, np.arange(-4, 4.25, 0.25), drawn("", 512, 7)]).astype(kind)
    for name, wanted in ROUNDED.items():
        got = computed(lambda k, value, name=name: getattr(k.math, name)(value), x, elements=(element, element))
        assert np.array_equal(got, wanted(x), equal_nan=True), name
        assert np.array_equal(np.signbit(got), np.signbit(wanted(x))) or np.isnan(x).any(), name
    sign = np.roll(x, 3)
    got = computed(lambda k, a, b: k.math.copysign(a, b), x, sign, elements=(element, element))
    known = ~np.isnan(x) & ~np.isnan(sign)
    assert np.array_equal(got[known].view(f"u{got.itemsize}"), np.copysign(x, sign)[known].view(f"u{got.itemsize}"))


@on_devices
def test_a_directed_rounding_is_beside_the_nearest():
    rng = np.random.default_rng(8)
    a, b = (rng.uniform(-100, 100, 2048).astype(np.float32) for _ in range(2))
    wide = a.astype(np.float64) * b.astype(np.float64)
    for rounding, holds in (("rm", np.less_equal), ("rp", np.greater_equal), ("rz", None), ("rn", None)):
        got = computed(lambda k, x, y, to=rounding: k.math.mul(x, y, rounding=to), a, b).astype(np.float64)
        if holds is not None:
            assert holds(got, wide).all()
        if rounding == "rz":
            assert (np.abs(got) <= np.abs(wide)).all()
        assert (np.abs(got - wide) <= np.abs(wide) * 2.0 ** (-24 if rounding == "rn" else -23)).all()
