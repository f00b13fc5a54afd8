"""Selects keep the sign of zero: a comparison takes both zeros for one, PTX's min and max do not (PTX ISA 9.7.3)."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f16, f32, f64
from nvbackend.codegen.llvm import compile_ir
from nvbackend.isel.target.target import Target

CHOICES = {
    "lt": (lambda k, a, zero: k.select(a < zero, a, zero), lambda a, zero: np.where(a < zero, a, zero)),
    "gt": (lambda k, a, zero: k.select(a > zero, a, zero), lambda a, zero: np.where(a > zero, a, zero)),
    "le": (lambda k, a, zero: k.select(a <= zero, a, zero), lambda a, zero: np.where(a <= zero, a, zero)),
    "ge": (lambda k, a, zero: k.select(a >= zero, a, zero), lambda a, zero: np.where(a >= zero, a, zero)),
    "other": (lambda k, a, zero: k.select(a < zero, zero, a), lambda a, zero: np.where(a < zero, zero, a)),
    "turned": (lambda k, a, zero: k.select(a < -zero, a, zero), lambda a, zero: np.where(a < zero, a, zero)),
}
GIVEN = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5], np.float64)


@pytest.mark.parametrize("zero", [0.0, -0.0])
@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize(("element", "dtype"), [(f16, np.float16), (f32, np.float32), (f64, np.float64)], ids=str)
def test_a_select_keeps_the_sign_of_zero(element, dtype, choice, zero):
    made, expected = CHOICES[choice]

    @nvb.kernel("sm_80", threads=32)
    def kernel(k, x: nvb.Pointer(element), out: nvb.Pointer(element)):
        out[k.thread_id()] = made(k, x[k.thread_id()], k.const(zero, element))

    x, out = np.resize(GIVEN.astype(dtype), 32), np.ones(32, dtype)
    nvb.runtime.load(kernel.compile(assemble=False, cache=nvb.Cache.disabled()), device="simulator").launch(1, x, out)
    wanted = expected(x, dtype(zero))
    np.testing.assert_array_equal(out, wanted)
    np.testing.assert_array_equal(np.signbit(out)[wanted == 0], np.signbit(wanted)[wanted == 0])


FORMS = {
    "float": ("0.000000e+00", "-0.000000e+00", "1.000000e+00"),
    "<2 x half>": ("zeroinitializer", "splat (half 0xH8000)", "splat (half 0xH3C00)"),
}


def _ptx(kind: str, body: str, name: str = "a") -> str:
    text = f"""target triple = "nvptx64-nvidia-cuda"
define ptx_kernel void @k(ptr addrspace(1) %x, ptr addrspace(1) %sign.0) {{
  %"{name}" = load {kind}, ptr addrspace(1) %x
  %next = getelementptr {kind}, ptr addrspace(1) %x, i32 1
  %b = load {kind}, ptr addrspace(1) %next
{body}
  store {kind} %r, ptr addrspace(1) %sign.0
  ret void
}}
"""
    return compile_ir(text, Target.parse("sm_90")).ptx


@pytest.mark.parametrize("kind", FORMS)
def test_what_is_no_minimum_stays_a_select(kind):
    bits = "i1" if kind == "float" else "<2 x i1>"
    plus, _, _ = FORMS[kind]
    for flags, other in (("", plus), ("nnan ", "%b")):
        ptx = _ptx(
            kind, f"  %c = fcmp {flags}olt {kind} %a, {other}\n  %r = select {bits} %c, {kind} %a, {kind} {other}"
        )
        assert "min." not in ptx and "selp" in ptx


@pytest.mark.parametrize("name", ["a, b", "a!", ", !", "x = select i1", "<2 x", "%a"])
@pytest.mark.parametrize("kind", FORMS)
def test_names_may_have_what_separates_operands(kind, name):
    bits, plus = "i1" if kind == "float" else "<2 x i1>", FORMS[kind][0]
    body = f"  %c = fcmp olt {kind} %a, {plus}\n  %r = select {bits} %c, {kind} %a, {kind} {plus}"
    ptx = _ptx(kind, body.replace("%a", f'%"{name}"').replace("%c", f'%"{name}c"'), name)
    assert "min." not in ptx


def test_what_is_a_minimum_is_one():
    """A bound that is no zero, one of the right sign, and what IR from elsewhere says of zeros itself."""
    plus, minus, one = FORMS["float"]
    for order, bound, flags, word in (
        ("olt", one, "", "min.f32"),
        ("olt", minus, "", "min.f32"),
        ("ogt", plus, "", "max.f32"),
        ("olt", plus, "nsz ", "min.f32"),
    ):
        text = f"  %c = fcmp {order} float %a, {bound}\n  %r = select {flags}i1 %c, float %a, float {bound}"
        assert word in _ptx("float", text)
