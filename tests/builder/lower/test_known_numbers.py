"""Operators of integers beside numbers that are known when the kernel is built: what they give on the host's processor.

Every integer type, every operation, the known number on either side or on both; computed a second time as Python's own
integers, cut to their bits.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import s64
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.signature import Parameter, Pointer, Scalar
from tests.scalar import numbers
from tests.support.host import HostKernel

OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
}
SMALL = (0, 1, 2, 3, 8, -1, -2, -3)


def known(element: ElementType) -> list[int]:
    """Small numbers, the ends of the type, and shifts up to its bits and past them."""
    bits = element.bits
    ends = [1 << bits - 1, (1 << bits - 1) - 1, (1 << bits - 2) + 5]
    return list(dict.fromkeys(numbers.wrap(each, element) for each in (*SMALL, *ends, bits - 1, bits, bits + 1)))


def expected(name: str, element: ElementType, a: int, b: int) -> int:
    rows = (np.array([each], numbers.dtype(element)) for each in (a, b))
    return numbers.wrap(int(numbers.binary(name, element, *rows)[0]), element)


@pytest.mark.parametrize("element", numbers.INTEGERS, ids=str)
@pytest.mark.parametrize("is_left", [True, False], ids=["known-left", "known-right"])
def test_a_known_number_beside_one_of_the_run(element: ElementType, is_left: bool) -> None:
    cases = [(name, number) for name in OPERATIONS for number in known(element)]
    parameters = [Parameter("out", Pointer(s64)), Parameter("a", Scalar(s64))]
    k = nvb.KernelBuilder("known", "sm_90a", threads=32, parameters=parameters)
    out, given = k.arguments
    a = given.to(element)
    for index, (name, number) in enumerate(cases):
        constant = k.const(number, element)
        pair = (constant, a) if is_left else (a, constant)
        out[index] = OPERATIONS[name](*pair).to(s64)
    kernel = HostKernel(k.finish())
    for number in known(element):
        results = np.zeros(len(cases), np.int64)
        kernel(results, numbers.wrap(number, s64))
        for (name, constant), result in zip(cases, results.tolist(), strict=True):
            pair = (constant, number) if is_left else (number, constant)
            assert numbers.wrap(result, element) == expected(name, element, *pair), (pair[0], name, pair[1])


@pytest.mark.parametrize("element", numbers.INTEGERS, ids=str)
def test_two_known_numbers_give_a_third(element: ElementType) -> None:
    k = nvb.KernelBuilder("known", "sm_90a", threads=32, parameters=[Parameter("out", Pointer(s64))])
    values = {number: k.const(number, element) for number in known(element)}
    for name, operation in OPERATIONS.items():
        for a, left in values.items():
            for b, right in values.items():
                assert operation(left, right).constant == expected(name, element, a, b), (a, name, b)
