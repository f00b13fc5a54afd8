"""Integers to f32 and f64 with a rounding: by it where the number may be rounded, exactly where it fits."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import f32, f64, s32, s64, u32, u64

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
