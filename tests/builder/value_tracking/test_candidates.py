"""All numbers that a value may be, from its bits and from a loop's counter."""

from __future__ import annotations

import itertools

import pytest

from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.builder.value_tracking.addresses.operands import OperandNumbers
from nvbackend.builder.value_tracking.expressions.bits import Bits
from nvbackend.intrinsics.row.types import u32
from nvbackend.signature import Parameter, Scalar


def new() -> tuple[KernelBuilder, OperandNumbers]:
    k = KernelBuilder("f", "sm_90a", threads=32, parameters=[Parameter("n", Scalar(u32))])
    return k, OperandNumbers(k.core.execution, Bits())


@pytest.mark.parametrize("mask", [0, 1, 0b1010, 0x80000000, 0x3F, 0xF00C, 0x7F, 0xFFFFFFFF], ids=hex)
@pytest.mark.parametrize("set_", [0, 16])
def test_each_number_with_the_bits_that_are_known(mask: int, set_: int) -> None:
    k, numbers = new()
    bits = [bit for bit in range(32) if mask >> bit & 1 and not set_ >> bit & 1]
    every = (
        sorted(
            set_ | sum(some)
            for count in range(len(bits) + 1)
            for some in itertools.combinations([1 << bit for bit in bits], count)
        )
        if len(bits) <= 6
        else []
    )
    assert numbers._candidates((k.arguments[0] & mask | set_).ir) == tuple(every)


@pytest.mark.parametrize(("first", "end", "step"), [(0, 4, 1), (3, 67, 1), (3, 68, 1), (5, 9, 3)])
def test_each_round_of_a_counter(first: int, end: int, step: int) -> None:
    k, numbers = new()
    with k.range(first, end, step) as i:
        found = numbers._candidates(i.ir)
        last = range(first, end, step)[-1]
        assert found == (tuple(range(first, last + 1)) if last - first < 64 else ())
        assert numbers._certain(i.ir) == ()


def test_a_number_that_is_certain() -> None:
    k, numbers = new()
    assert numbers._certain(k.thread_id().ir) == tuple(range(32))
    assert numbers._certain((k.thread_id() & 2).ir) == (0, 2)
    assert numbers._certain(k.arguments[0].ir) == ()
