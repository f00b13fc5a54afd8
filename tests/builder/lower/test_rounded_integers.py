"""Integers to f32 and f64 with a rounding, by it where the number may be rounded; and to integers, saturated."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f32, f64, s32, s64, u32, u64
from nvbackend.intrinsics.row.types import ElementType, pred
from tests.scalar import numbers
from tests.support.host import HostKernel

MANTISSA = {f32: 24, f64: 53}
LETTERS = {s32: (32, "s32"), u32: (32, "u32"), s64: (64, "s64"), u64: (64, "u64")}


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
def test_the_rounding_is_in_the_ptx_where_it_matters(mode: str) -> None:
    for source, element in itertools.product(LETTERS, MANTISSA):
        k: Any = nvb.KernelBuilder("k", "sm_90a", threads=32, parameters=[nvb.Parameter("p", nvb.Pointer(u64))])
        (p,) = k.arguments
        p.cast(element)[8] = p.cast(source)[0].to(element, rounding=mode)
        bits, letters = LETTERS[source]
        wide = f"f{32 if element is f32 else 64}.{letters}"
        said = f"cvt.{mode}.{wide}" if bits > MANTISSA[element] else f"cvt.rn.{wide}"
        assert said in k.compile(assemble=False).ptx, (said, k.compile(assemble=False).ptx)


@pytest.mark.parametrize("source", [*numbers.INTEGERS, pred], ids=str)
def test_a_saturated_integer_stops_at_the_ends_of_its_new_type(source: ElementType) -> None:
    """Known when the kernel is built, or not: against the numbers of Python."""
    ends = {each.integers[place] + step for each in numbers.INTEGERS for place in (0, -1) for step in (-1, 0, 1)}
    given = sorted(each for each in ends if each in source.integers)
    elements = [each for each in numbers.INTEGERS if each is not source]
    parameters = [nvb.Parameter(name, nvb.Pointer(s64)) for name in ("x", "out")]
    k: Any = nvb.KernelBuilder("k", "sm_90a", threads=32, parameters=parameters)
    x, out = k.arguments
    for place, (element, number) in enumerate(itertools.product(elements, given)):
        loaded = x[given.index(number)]
        values = (loaded != 0 if source is pred else loaded.to(source)), k.const(number, source)
        for step, value in enumerate(values):
            out[2 * place + step] = value.to(element, saturate=True).to(s64)
    got = np.zeros((len(elements), len(given), 2), np.int64)
    HostKernel(k.finish())(np.array([numbers.wrap(each, s64) for each in given]), got, threads=1)
    for element, row in zip(elements, got, strict=True):
        stopped = [numbers.wrap(min(max(each, element.integers[0]), element.integers[-1]), s64) for each in given]
        assert row.tolist() == [[each, each] for each in stopped], element
