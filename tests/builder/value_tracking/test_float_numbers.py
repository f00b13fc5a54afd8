"""Floats whose number is known in every thread: exactly those that numpy's floats of the type hold, and comparisons."""

from __future__ import annotations

import itertools
import operator

import numpy as np
import pytest
from llvmlite import ir

from nvbackend.builder.lower.conversions import llvm_type
from nvbackend.builder.thread_tables.table import Table
from nvbackend.builder.thread_tables.tables import constant
from nvbackend.builder.value_tracking.known import Known
from nvbackend.builder.value_tracking.results import constant_of, float_constant, float_result
from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.intrinsics.row.types import ElementType, bf16, f16, f32, f64
from tests.support.tables import array, table

FLOATS = {f16: 11, bf16: 8, f32: 24, f64: 53}
"""The bits of a significand, of which the highest is not stored (IEEE 754; bf16: the upper half of f32)."""
COMPARISONS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def holds(element: ElementType, number: float) -> bool:
    """Whether the type has this number, by numpy's arithmetic."""
    if element is bf16:
        return float(np.float32(number)) == number and not int(np.float32(number).view(np.uint32)) & 0xFFFF
    kind = {f16: np.float16, f32: np.float32, f64: np.float64}[element]
    return float(kind(number)) == number


@pytest.mark.parametrize("element", FLOATS, ids=str)
def test_a_float_that_an_integer_spells(element: ElementType) -> None:
    """llvmlite takes one. Its number is not looked at: it is the same in all threads."""
    for number in (0, 3, -7):
        known = constant_of(ir.Constant(llvm_type(element), number))
        assert (known.numbers, known.certain) == (None, Scope.GRID)


@pytest.mark.parametrize("element", FLOATS, ids=str)
def test_constants_that_the_type_holds(element: ElementType) -> None:
    kept = 0
    for bits, scale, sign in itertools.product(range(1, 54), (-14, -3, 0, 14), (1, -1)):
        number = sign * float((1 << bits - 1) | 1) * 2.0 ** (scale - bits + 1)
        found = float_constant(ir.Constant(llvm_type(element), number))
        assert (found is not None) == holds(element, number), number
        if found is not None:
            assert array(found).tolist() == [[[number]]]
            kept += 1
    assert kept == FLOATS[element] * 4 * 2


@pytest.mark.parametrize("element", FLOATS, ids=str)
def test_the_ends_of_the_numbers_that_every_type_holds(element: ElementType) -> None:
    for number, is_known in (
        (0.0, True),
        (2.0**-14, True),
        (-(2.0**-14), True),
        (2.0**-15, False),
        (2.0**15, True),
        (-(2.0**15), True),
        (2.0**16, False),
        (float("inf"), False),
    ):
        assert (float_constant(ir.Constant(llvm_type(element), number)) is not None) is is_known, number
    assert float_constant(ir.Constant(ir.IntType(32), 1)) is None


def builder() -> ir.IRBuilder:
    kind = ir.FunctionType(ir.VoidType(), [ir.IntType(32), ir.IntType(64), ir.IntType(128), *map(llvm_type, FLOATS)])
    return ir.IRBuilder(ir.Function(ir.Module(), kind, "f").append_basic_block())


@pytest.mark.parametrize("element", FLOATS, ids=str)
@pytest.mark.parametrize("width", [32, 64])
@pytest.mark.parametrize("signed", [False, True])
def test_integers_as_floats(element: ElementType, width: int, signed: bool) -> None:
    """Up to the first that the type lacks each one is known, and none beyond, with its sign or without."""
    llvm, limit = builder(), 1 << FLOATS[element]
    value = llvm.function.args[0 if width == 32 else 1]
    made = (llvm.sitofp if signed else llvm.uitofp)(value, llvm_type(element))
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)
    assert not holds(element, limit + 1) or element is f64
    for number in (0, 1, 3, limit - 1, limit, limit + 1, -1, 1 - limit, -limit, -limit - 1, low, high):
        if low <= number <= high:
            result = float_result(made, [Known(constant(number, width))])
            assert result is not None
            numbers, where = result
            assert (where is None or where.all()) == (abs(number) <= limit), number
            if abs(number) <= limit:
                assert array(numbers).tolist() == [[[float(number)]]]


def test_integers_of_which_nothing_is_known() -> None:
    llvm = builder()
    small, _, wide = llvm.function.args[:3]
    assert float_result(llvm.sitofp(small, llvm_type(f32)), [Known()]) is None
    assert float_result(llvm.sitofp(wide, llvm_type(f32)), [Known(constant(1, 64))]) is None
    half, _, single = llvm.function.args[3:6]
    assert float_result(llvm.fpext(half, llvm_type(f32)), [Known()]) is None
    number = Known(Table.of(1.5), Table.where_all())
    assert float_result(llvm.fpext(half, llvm_type(f32)), [number]) == (number.numbers, number.where)
    for known in ([Known(), number], [number, Known()]):
        assert float_result(llvm.fcmp_ordered("<", single, single), known) is None


@pytest.mark.parametrize("operation", COMPARISONS)
def test_comparisons_of_floats(operation: str) -> None:
    """Of numbers that are known nothing is NaN: ordered and unordered ones say the same, where both are known."""
    llvm = builder()
    single = llvm.function.args[5]
    ones, others = [1.0, 2.0, 3.0, 5.0], [2.0, 2.0, 2.0, 7.0]
    left, right = table(np.array([[ones]])), table(np.array([[others]]))
    known = table(np.array([[[True, True, True, False]]]))
    for made in (llvm.fcmp_ordered(operation, single, single), llvm.fcmp_unordered(operation, single, single)):
        for operands in ([Known(left, known), Known(right)], [Known(left), Known(right, known)]):
            result = float_result(made, operands)
            assert result is not None
            assert array(result[0]).tolist() == [
                [[COMPARISONS[operation](*pair) for pair in zip(ones, others, strict=True)]]
            ]
            assert result[1] is not None
            assert array(result[1]).tolist() == array(known).tolist()
    assert float_result(llvm.fcmp_ordered("ord", single, single), [Known(left), Known(right)]) is None
