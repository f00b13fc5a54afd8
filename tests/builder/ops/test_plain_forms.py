"""Calls with no option given: the instruction as the PTX ISA has it without modifiers."""

from __future__ import annotations

import re

import pytest

import nvbackend as nvb
from nvbackend import f32

CALLS = {
    "no increment": (
        lambda k, x, bar: k.cp_async.mbarrier_arrive(bar),
        r"cp\.async\.mbarrier\.arrive\.(?!noinc)",
        "sm_90a",
    ),
    "reduction at barrier 0": (
        lambda k, x, bar: k.barrier.reduce("popc", x > 0.0),
        r"red\.popc\.\S+\s+%r\d+, 0,",
        "sm_90a",
    ),
    "minimum without NaN": (lambda k, x, bar: x_of(k, k.math.min(x, x + 1.0)), r"min\.f32", "sm_90a"),
    "maximum without NaN": (lambda k, x, bar: x_of(k, k.math.max(x, x + 1.0)), r"max\.f32", "sm_90a"),
    "barrier 0": (lambda k, x, bar: k.barrier.sync(), r"bar\.sync\s+0;", "sm_90a"),
}


def x_of(k: nvb.KernelBuilder, value: object) -> None:
    k.arguments[0][1] = value


@pytest.mark.parametrize("name", CALLS)
def test_a_call_without_options(name: str) -> None:
    call, text, target = CALLS[name]
    k = nvb.KernelBuilder("k", target, threads=32, parameters=[nvb.Parameter("p", nvb.Pointer(f32))])
    bar = k.mbarrier.array(1, 32)
    k.mbarrier.ready()
    call(k, k.arguments[0][0], bar)
    ptx = k.finish().compile(assemble=False).ptx
    assert re.search(text, ptx), ptx
