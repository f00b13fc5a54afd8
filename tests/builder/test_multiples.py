"""What numbers are said to be multiples of, against their values in Python's arithmetic."""

from __future__ import annotations

import operator

from hypothesis import given, settings
from hypothesis import strategies as st

from nvbackend import i32
from nvbackend.builder.kernel import KernelBuilder
from nvbackend.signature import Parameter, Scalar

OPERATIONS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}
leaves = st.one_of(st.sampled_from(["x", "y"]), st.integers(-64, 64))
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(sorted(OPERATIONS)), inner, inner),
        st.tuples(st.just("<<"), inner, st.integers(0, 4)),
        st.tuples(st.just("if"), inner, inner),
    ),
    max_leaves=8,
)


def evaluated(tree, names, select):
    if isinstance(tree, str):
        return names[tree]
    if isinstance(tree, int):
        return tree
    kind, left, *right = tree
    parts = [evaluated(one, names, select) for one in (left, *right)]
    if kind == "<<":
        return parts[0] * 2 ** right[0]
    return select(*parts) if kind == "if" else OPERATIONS[kind](*parts)


@settings(max_examples=150, deadline=None)
@given(trees, st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), st.integers(-100, 100)), min_size=3, max_size=6))
def test_every_value_is_a_multiple(tree, numbers):
    k = KernelBuilder("multiples", "sm_90a", threads=32, parameters=[Parameter(name, Scalar(i32)) for name in "xy"])
    names = dict(zip("xy", k.arguments, strict=True))
    value = evaluated(tree, names, lambda a, b: k.select(names["x"] > 0, a, b))
    if isinstance(value, int):
        return
    divisor = k._places.multiples.divisor(value.ir)
    power = divisor & -divisor
    for pair in numbers:
        found = evaluated(tree, dict(zip("xy", pair, strict=True)), lambda a, b, x=pair[0]: a if x > 0 else b)
        wrapped = found % 2**32
        assert wrapped == 0 if divisor == 0 else wrapped % min(power, 2**32) == 0


@given(st.integers(0, 6), st.integers(0, 6))
def test_what_is_known_is_used(a, b):
    k = KernelBuilder("multiples", "sm_90a", threads=32, parameters=[Parameter("x", Scalar(i32))])
    (x,) = k.arguments
    divisor = k._places.multiples.divisor
    assert divisor((x * 2**a * (x << b)).ir) == 2 ** (a + b)
    assert divisor((x * 3 * 2**a + 3 * 2**b).ir) == 3 * 2 ** min(a, b)
    assert divisor((x * 2**a & -(2**b)).ir) == 2 ** max(a, b)
    assert divisor((x * 2**a ^ 2**b).ir) == 2 ** min(a, b)
