"""The `repr` of every public class: a line that says what the object is, and fits a screen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend import f16, f32, u32
from nvbackend.layout import Layout
from samples import hopper_gemm
from tests.meta.test_api import PUBLIC
from tests.support.runtime import FakeArray, FakeCompiled, FakeDevice

MOST = 300
TILE = nvb.SmemLayout(nvb.Major.K, nvb.Swizzle.B128, f16, 64, 64)
NOT_MADE = {"runtime.Compiled", "ElementType"}
"""A protocol; the element types are public themselves."""


def the_kernels() -> Iterator[Any]:
    """A large kernel in all its forms, and as it is loaded and launched."""
    built = hopper_gemm.gemm.build()
    compiled = built.compile(cache=nvb.Cache.disabled(), assemble=False)
    signature = nvb.Signature("scale", (nvb.Parameter("x", nvb.Pointer(f16)),), nvb.LaunchBounds(threads=32))
    loaded = nvb.runtime.load(FakeCompiled(signature), device=FakeDevice())
    array = FakeArray((64, 64))
    yield from (hopper_gemm.gemm, built, compiled, built.machine, *list(built.machine.instructions())[:60])
    yield from (built.signature, built.signature.bounds, *built.signature.parameters, built.target, nvb.Cache.default())
    yield from (loaded, loaded.prepare(1, array), nvb.runtime.read_array(array), nvb.runtime.DriverError("CUDA_ERROR"))
    yield nvb.runtime.Timing((1e-3, 2e-3))
    yield from nvb.ptx.parse(compiled.ptx).functions
