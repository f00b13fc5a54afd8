"""What numbers are said to be multiples of, against their values in Python's arithmetic."""

from __future__ import annotations

import itertools
import math
import operator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite import ir

from nvbackend import DiagnosticError, f32, i32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.builder.value_tracking.expressions.bits import Multiples
from nvbackend.signature import Parameter, Pointer, Scalar

OPERATIONS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}
BY_NUMBER = {
    "<<": lambda number, by: number * 2**by,
    ">>": operator.rshift,
    "//": operator.floordiv,
    "%": operator.mod,
}
leaves = st.one_of(st.sampled_from(["x", "y"]), st.integers(-64, 64))
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(sorted(OPERATIONS)), inner, inner),
        st.tuples(st.sampled_from(["<<", ">>"]), inner, st.integers(0, 4)),
        st.tuples(st.sampled_from(["//", "%"]), inner, st.sampled_from([1, 2, 3, 4, 6, 8, 12, 16, 24])),
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
    if kind in BY_NUMBER:
        return BY_NUMBER[kind](parts[0], right[0])
    return select(*parts) if kind == "if" else OPERATIONS[kind](*parts)


class Wrapping(int):
    """A signed number of 32 bits that wraps around after each operation, as those of a kernel do."""

    def _with(self, operation, left, right):
        return Wrapping((operation(int(left), int(right)) + 2**31) % 2**32 - 2**31)


def _wrapping(operation):
    return lambda self, other: self._with(operation, self, other)


def _reflected(operation):
    return lambda self, other: self._with(operation, other, self)


for name in ("add", "sub", "mul", "and", "or", "xor", "rshift", "floordiv", "mod"):
    operation = getattr(operator, f"{name}_" if name in ("and", "or") else name)
    setattr(Wrapping, f"__{name}__", _wrapping(operation))
    setattr(Wrapping, f"__r{name}__", _reflected(operation))


@settings(max_examples=150, deadline=None)
@given(trees, st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), st.integers(-100, 100)), min_size=3, max_size=6))
def test_every_value_is_a_multiple(tree, numbers):
    k = KernelBuilder("multiples", "sm_90a", threads=32, parameters=[Parameter(name, Scalar(i32)) for name in "xy"])
    names = dict(zip("xy", k.arguments, strict=True))
    value = evaluated(tree, names, lambda a, b: k.select(names["x"] > 0, a, b))
    if isinstance(value, int):
        return
    divisor = k.core.places.multiples.divisor(value.ir)
    power = divisor & -divisor
    for pair in numbers:
        x, y = map(Wrapping, pair)
        found = evaluated(tree, {"x": x, "y": y}, lambda a, b, x=pair[0]: a if x > 0 else b)
        wrapped = int(found) % 2**32
        assert wrapped == 0 if divisor == 0 else wrapped % min(power, 2**32) == 0


@given(st.integers(0, 6), st.integers(0, 6))
def test_what_is_known_is_used(a, b):
    k = KernelBuilder("multiples", "sm_90a", threads=32, parameters=[Parameter("x", Scalar(i32))])
    (x,) = k.arguments
    divisor = k.core.places.multiples.divisor
    assert divisor((x * 2**a * (x << b)).ir) == 2 ** (a + b)
    assert divisor((x * 3 * 2**a + 3 * 2**b).ir) == 3 * 2 ** min(a, b)
    assert divisor((x * 2**a & -(2**b)).ir) == 2 ** max(a, b)
    assert divisor((x * 2**a ^ 2**b).ir) == 2 ** min(a, b)
    assert divisor((x * 2 ** (a + b) // 2**a).ir) == 2**b
    assert divisor((x * 2 ** (a + b) >> a).ir) == 2**b
    assert divisor((x * 2**a % (3 * 2**b)).ir) == 2 ** min(a, b)
    with k.range(2 ** (a + 1), x, 2**b) as i:
        assert divisor((i * 4 // 4).ir) == 2 ** min(a + 1, b)
    assert divisor(k.uniform(x * 2**a).ir) == 2**a


OF_TWO = {
    **dict.fromkeys(("add", "sub"), math.gcd),
    "mul": operator.mul,
    "and_": lambda left, right: math.lcm(left & -left, right & -right),
    **dict.fromkeys(("or_", "xor"), lambda left, right: math.gcd(left & -left, right & -right)),
}
"""What is certain of numbers that are multiples of these: nothing but 0 is a multiple of 0."""


@pytest.mark.parametrize("name", OF_TWO)
def test_what_two_multiples_make(name):
    word = ir.IntType(32)
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [word, word]), "f")
    llvm, (x, y) = ir.IRBuilder(function.append_basic_block()), function.args
    for left, right in itertools.product((0, 1, 6, 8, 20), repeat=2):
        made = getattr(llvm, name)(llvm.mul(x, word(left)), llvm.mul(y, word(right)))
        assert Multiples().divisor(made) == OF_TWO[name](left, right), (left, right)


def test_aligned_accesses_survive_division():
    k = KernelBuilder("quarters", "sm_90a", threads=32, parameters=[Parameter("x", Pointer(f32, align=16))])
    (x,) = k.arguments
    thread = k.thread_id()
    for index in (thread * 16 // 4, thread * 8 % 12, (thread * 64 >> 2) % 8, (thread << 4) // 2):
        assert (x + index).load(4)
    with k.range(0, thread, 4) as i:
        assert (x + i).load(4)
    with pytest.raises(DiagnosticError, match=r"memory\.alignment"):
        (x + thread * 16 // 8).load(4)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (3 << 40, 1 << 20, 3 << 60),
        (3 << 40, 1 << 22, 3 << 62),
        (3 << 40, 1 << 23, 1 << 63),
        (1 << 40, 1 << 40, 1 << 63),
        (1 << 32, 1 << 32, 1 << 63),
        ((1 << 32) - 1, (1 << 32) + 1, (1 << 64) - 1),
    ],
)
def test_what_a_product_is_a_multiple_of_fits_64_bits(left, right, expected):
    block = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), []), "f").append_basic_block()
    product = ir.IRBuilder(block).mul(ir.Constant(ir.IntType(64), left), ir.Constant(ir.IntType(64), right))
    assert Multiples().divisor(product) == expected


def test_by_a_number_that_is_not_known_little_is_known():
    """A shift to the left keeps what its operand has; a number of 32 bits that is shifted by 32 is not defined."""
    word = ir.IntType(32)
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [word, word]), "f")
    llvm, (x, y) = ir.IRBuilder(function.append_basic_block()), function.args
    number = llvm.mul(x, word(24))
    expected = {"shl": 24, "lshr": 1, "ashr": 1, "udiv": 1, "sdiv": 1, "urem": 1, "srem": 1}
    assert {name: Multiples().divisor(getattr(llvm, name)(number, y)) for name in expected} == expected
    by_two = {"shl": 96, "lshr": 6, "ashr": 6, "udiv": 12, "sdiv": 12, "urem": 2, "srem": 2}
    assert {name: Multiples().divisor(getattr(llvm, name)(number, word(2))) for name in by_two} == by_two
    for name in ("shl", "lshr", "ashr"):
        by = {amount: Multiples().divisor(getattr(llvm, name)(number, word(amount))) for amount in (-1, 0, 31, 32)}
        assert by == {-1: 1, 0: 24, 31: 24 << 31 if name == "shl" else 1, 32: 1}


@pytest.mark.parametrize(("operations", "expected"), [(12, 3), (13, 1)])
def test_how_many_operations_back_a_divisor_is_traced(operations, expected):
    """Each sum adds a multiple of three."""
    word = ir.IntType(32)
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [word]), "f")
    llvm, value = ir.IRBuilder(function.append_basic_block()), function.args[0]
    multiples = Multiples()
    multiples.promise(value, 3)
    for number in range(operations):
        value = llvm.add(value, word(3 << number))
    assert multiples.divisor(value) == expected
