"""The functions of k.math of f64: each within the units in the last place that its docstring states."""

from __future__ import annotations

import math

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f64
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.signature import Parameter, Pointer
from tests.builder.ops.math.digits import units_off
from tests.builder.ops.math.test_accuracy import computed
from tests.support.devices import on_devices

BOUNDS = {
    "exp": 1.1,
    "exp2": 1.1,
    "log": 1.0,
    "log2": 1.2,
    "log10": 1.1,
    "sin": 1.1,
    "cos": 1.1,
    "tanh": 2.5,
    "erf": 1.5,
    "sigmoid": 2.5,
    "silu": 4.0,
    "pow": 1.3,
}
"""What the docstrings say."""
RANGES = {
    "exp": ((-745, 709), (-1, 1), (-708, 709)),
    "exp2": ((-1074, 1024), (-1, 1)),
    **dict.fromkeys(("log", "log2", "log10"), ((0.5, 2), (0.99, 1.01), (5e-324, 1e-308), (0, 1e300))),
    **dict.fromkeys(("sin", "cos"), ((-0.8, 0.8), (-7, 7), (-1e5, 1e5), (1e10, 1e20), (1e100, 1e308))),
    "tanh": ((-20, 20), (-0.6, 0.6), (1e-10, 1e-3)),
    "erf": ((-6, 6), (0.9, 1.2), (-0.5, 0.5)),
    **dict.fromkeys(("sigmoid", "silu"), ((-700, 40), (-2, 2))),
}
NEAR_A_QUARTER = (6381956970095103.0 * 2.0**797, math.pi, math.pi / 2, 3 * math.pi / 2, 1e22)
"""The first is nearer to a multiple of pi / 2 than any other f64."""
F64 = (f64, f64)


def function(name):
    options = {} if name == "erf" else {"approx": False}
    return lambda k, *values: getattr(k.math, name)(*values, **options)


def drawn(name, count):
    rng = np.random.default_rng(11)
    if name != "pow":
        few = NEAR_A_QUARTER if name in ("sin", "cos") else ()
        return [
            np.concatenate([few, *(rng.uniform(low, high, count // len(RANGES[name])) for low, high in RANGES[name])])
        ]
    base = np.exp2(rng.uniform(-1000, 1000, count))
    near = 1 + rng.uniform(-1e-3, 1e-3, count // 2)
    exponents = [rng.uniform(-1000, 1000, count) / np.log2(base), rng.uniform(-6e5, 6e5, count // 2)]
    return [np.concatenate([base, near]), np.concatenate(exponents)]


@on_devices
@pytest.mark.parametrize("count", [96, pytest.param(5000, marks=pytest.mark.exhaustive(seconds=20))])
@pytest.mark.parametrize("name", BOUNDS)
def test_a_function_is_within_its_bound(name, count):
    columns = drawn(name, count)
    got = computed(function(name), *columns, elements=F64)
    off = [units_off(name, *(float(one) for one in row)) for row in zip(got, *columns, strict=True)]
    worst = int(np.argmax(off))
    assert off[worst] <= BOUNDS[name], (name, [column[worst] for column in columns], got[worst])


SPECIAL = np.array([0.0, math.inf, math.nan, 5e-324, 1e-310, 1.0, 0.5, 2.0, 3.0, 1e300, 720.0, 1080.0, 2.0**53])
SPECIAL = np.concatenate([SPECIAL, -SPECIAL])
OF_NUMPY = {
    **{name: getattr(np, name) for name in ("exp", "exp2", "log", "log2", "log10", "tanh")},
    "erf": lambda x: np.array([math.erf(one) for one in x]),
    "pow": np.power,
}


@on_devices
@pytest.mark.parametrize("name", OF_NUMPY)
def test_special_values_are_those_of_c(name):
    columns = [column.ravel() for column in np.meshgrid(SPECIAL, SPECIAL)] if name == "pow" else [SPECIAL]
    got = computed(function(name), *columns, elements=F64)
    with np.errstate(all="ignore"):
        wanted = OF_NUMPY[name](*columns)
        same = (got == wanted) & (np.signbit(got) == np.signbit(wanted)) | (np.isnan(got) & np.isnan(wanted))
        near = np.isfinite(wanted) & (np.abs(got - wanted) <= 2 * np.spacing(np.abs(wanted))) & (wanted != 0)
    assert [tuple(column[place] for column in columns) for place in np.flatnonzero(~(same | near))] == []


@on_devices
def test_waves_of_what_is_not_finite_are_nan_and_of_zero_keep_its_sign():
    x = np.array([math.inf, -math.inf, math.nan, 0.0, -0.0, -5e-324])
    sine, cosine = (computed(function(name), x, elements=F64) for name in ("sin", "cos"))
    assert np.isnan(sine[:3]).all() and np.isnan(cosine[:3]).all()
    assert sine[3:].view(np.uint64).tolist() == x[3:].view(np.uint64).tolist()
    assert cosine[3:].tolist() == [1.0] * 3


@on_devices
@pytest.mark.parametrize("form", ["erf", "tanh"])
def test_gelu_is_near_in_units_of_its_argument(form):
    x = np.linspace(-6, 6, 301)
    got = computed(lambda k, value: k.math.gelu(value, form=form), x, elements=F64)
    inside = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
    part = np.array([math.erf(one / math.sqrt(2)) for one in x]) if form == "erf" else np.tanh(inside)
    assert (np.abs(got - x * (1 + part) / 2) <= 2.0**-51 * np.abs(x)).all()


@pytest.mark.parametrize(
    ("options", "rule"), [({"approx": True}, "value.operation"), ({"ftz": True}, "call.no-effect")]
)
def test_a_form_that_f64_has_not_is_refused(options, rule):
    k = KernelBuilder("double", "sm_90a", threads=32, parameters=[Parameter("x", Pointer(f64))])
    with pytest.raises(nvb.DiagnosticError) as caught:
        k.math.exp(k.arguments[0][0], **options)
    assert [one.rule_id for one in caught.value.diagnostics] == [rule]


def test_a_policy_does_not_reach_f64():
    texts = []
    for math_policy in (None, nvb.MathPolicy(approx=True, ftz=True, contract=True)):
        k = KernelBuilder("double", "sm_90a", threads=32, parameters=[Parameter("x", Pointer(f64))], math=math_policy)
        (x,) = k.arguments
        x[0] = k.math.exp2(x[0])
        texts.append(k.finish().compile(assemble=False).ptx)
    assert texts[0] == texts[1]
