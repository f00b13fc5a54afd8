"""Comparisons that become floats: ptxas gives some of them other values, beside code that makes it follow them."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f16, f32, runtime, s32, u32
from nvbackend.codegen.llvm import compile_ir
from nvbackend.codegen.ptxas import assemble
from nvbackend.codegen.sass import disassemble
from nvbackend.codegen.stages.truth_values import apart_from_truth
from nvbackend.isel.target.target import Target
from tests.support.devices import on_devices

BRANCHES = """{
 .reg .pred p<7>; .reg .b32 r; .reg .b64 q<7>; .reg .b16 h<2>;
 ld.global.u32 r, [$0+48]; setp.ne.u32 p0, r, 0; ld.global.b64 q0, [$0+64]; setp.ne.b64 p1, q0, 0;
 @p1 bra one; bra.uni other;
 one: ld.global.b64 q1, [$0+72]; bra.uni both;
 other: ld.global.b64 q1, [$0+72];
 both: setp.ne.u32 p2, r, 0; setp.ne.b64 p3, q1, 0;
 ld.global.b64 q2, [$0+80]; selp.b64 q3, q2, 0, p3; add.s64 q4, q3, q1; selp.b64 q5, -1, q4, p0;
 ld.global.b64 q6, [$0+88]; setp.eq.b64 p4, q5, q6;
 ld.global.b16 h0, [$0+96]; ld.global.b16 h1, [$0+98]; selp.b16 h0, h0, h1, p4; selp.b16 h1, h0, h1, p2;
 st.global.b16 [$1+96], h1;
}"""
"""What is left of a large kernel, made smaller as long as ptxas follows the truth values in front of it."""

NEGATED = re.compile(r"-R\d+(?:\.H0_H0)?, -RZ|, -R\d+|0x80000000|0x8000\b|-0x80000000")
"""A sign that is turned, or a zero that has its sign."""
CONVERTED = re.compile(r"F2I|STG\.E \S+, RZ")
"""A conversion by the machine, or 0, which all these convert to."""
WORD = "%i = zext i1 %p to i32\n "
TWO = "%e = insertelement <2 x i1> poison, i1 %p, i32 0\n %v = insertelement <2 x i1> %e, i1 %px, i32 1\n "
FORMS = {
    "f32": ("float", "%f = uitofp i1 %p to float\n %r = fneg float %f"),
    "product": ("float", "%f = uitofp i1 %p to float\n %r = fmul float %f, -1.0"),
    "less one": (
        "i32",
        "%f = uitofp i1 %p to float\n %m = fadd float %f, -1.0\n %r = call i32 @llvm.nvvm.f2ui.rz(float %m)",
    ),
    "f16": ("half", "%f = uitofp i1 %p to half\n %r = fneg half %f"),
    "bf16": ("bfloat", "%f = uitofp i1 %p to bfloat\n %r = fneg bfloat %f"),
    "f64": ("double", "%f = uitofp i1 %p to double\n %r = fneg double %f"),
    "negative": ("float", "%f = sitofp i1 %p to float\n %r = fneg float %f"),
    "by an integer": ("float", f"{WORD}%f = sitofp i32 %i to float\n %r = fneg float %f"),
    "by a byte": ("float", "%i = zext i1 %p to i8\n %f = sitofp i8 %i to float\n %r = fneg float %f"),
    "unsigned": ("i32", "%f = sitofp i1 %p to float\n %r = call i32 @llvm.fptoui.sat.i32.f32(float %f)"),
    "zeros": ("float", "%r = select i1 %px, float -1.0, float -0.0"),
    "zeros turned": ("float", "%r = select i1 %p, float -0.0, float -1.0"),
    "zeros of vectors": (
        "<2 x float>",
        f"{TWO}%r = select <2 x i1> %v, <2 x float> <float -1.0, float 3.0>, <2 x float> <float -0.0, float 7.0>",
    ),
    "unsigned by a select": (
        "i32",
        "%f = select i1 %px, float -1.0, float 0.0\n %r = call i32 @llvm.nvvm.f2ui.rz(float %f)",
    ),
    "bits": ("i32", f"{WORD}%f = bitcast i32 %i to float\n %r = fptoui float %f to i32"),
    "bits of f16": ("i32", "%i = zext i1 %p to i16\n %f = bitcast i16 %i to half\n %r = fptoui half %f to i32"),
    "bits negated": ("float", f"{WORD}%f = bitcast i32 %i to float\n %r = fneg float %f"),
    "bits of -1": ("half", "%i = sext i1 %p to i16\n %f = bitcast i16 %i to half\n %r = fneg half %f"),
    "bits chosen": (
        "i32",
        f"{WORD}%c = xor i32 %i, 1\n %f = bitcast i32 %c to float\n %r = fptoui float %f to i32",
    ),
    "half of a word": (
        "half",
        f"{WORD}%v = bitcast i32 %i to <2 x half>\n %f = extractelement <2 x half> %v, i32 0\n %r = fneg half %f",
    ),
    "vector": (
        "<2 x float>",
        f"{TWO}%f = uitofp <2 x i1> %v to <2 x float>\n %r = fneg <2 x float> %f",
    ),
}


def _kernel(place, kind, body):
    tail = BRANCHES.replace("\n", "\\0A")
    return f"""
define ptx_kernel void @k{place}(ptr addrspace(1) %in, ptr addrspace(1) %out) {{
  %x = load i32, ptr addrspace(1) %in
  %y.at = getelementptr i32, ptr addrspace(1) %in, i32 1
  %y = load i32, ptr addrspace(1) %y.at
  %px = icmp ne i32 %x, 7
  %py = icmp ne i32 %y, 9
  %p = and i1 %px, %py
 {body}
  store {kind} %r, ptr addrspace(1) %out
  call void asm sideeffect "{tail}", "l,l,~{{memory}}"(ptr addrspace(1) %in, ptr addrspace(1) %out)
  ret void
}}
"""


@functools.cache
def _codes(optimize, chip):
    """The SASS of each form up to its first store."""
    head = """target triple = "nvptx64-nvidia-cuda"
declare i32 @llvm.fptoui.sat.i32.f32(float)
declare i32 @llvm.nvvm.f2ui.rz(float)
"""
    text = head + "".join(_kernel(place, *form) for place, form in enumerate(FORMS.values()))
    target = Target.parse(chip)
    sass = disassemble(assemble(compile_ir(text, target, optimize=optimize).ptx, target).data)
    functions = {int(name): code for name, code in re.findall(r"^\.text\.k(\d+):(.*?STG[^\n]*)", sass, re.M | re.S)}
    return {form: functions[place] for place, form in enumerate(FORMS)}


@pytest.mark.parametrize("chip", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("optimize", [0, 3])
@pytest.mark.parametrize("form", FORMS)
def test_ptxas_computes_with_truth_values_as_with_other_numbers(form, optimize, chip):
    code = _codes(optimize, chip)[form]
    assert (CONVERTED if FORMS[form][0] == "i32" else NEGATED).search(code), code
    assert "I2F" not in code or "PRMT" in code, code


@on_devices
def test_a_truth_value_made_a_float_keeps_its_sign_and_its_type():
    from numba import cuda

    @nvb.kernel("sm_90", threads=32)
    def kernel(k, x: nvb.Pointer[s32], numbers: nvb.Pointer[f32], integers: nvb.Pointer[u32]):
        t = k.thread_id()
        is_low, both = x[t] < 3, (x[t] < 3) & ((x[t] & 1) != 0)
        numbers[t] = k.select(is_low, -1.0, -0.0)
        numbers[t + 32] = -both.to(f32)
        numbers[t + 64] = both.to(f16).to(f32) * -1.0
        integers[t] = k.select(is_low, -1.0, 0.0).to(u32)
        integers[t + 32] = (both.to(f32) - 1.0).to(u32)
        integers[t + 64] = both.to(u32).bitcast(f32).to(u32)

    x = np.arange(-5, 27, dtype=np.int32)
    low, both = x < 3, (x < 3) & (x % 2 != 0)
    numbers, integers = cuda.to_device(np.ones(96, np.float32)), cuda.to_device(np.ones(96, np.uint32))
    loaded = runtime.load(kernel.compile())
    loaded.launch(1, cuda.to_device(x), numbers, integers)
    loaded.synchronize()
    expected = np.concatenate([np.where(mask, np.float32(-1), np.float32(-0.0)) for mask in (low, both, both)])
    np.testing.assert_array_equal(np.asarray(numbers.copy_to_host()).view(np.uint32), expected.view(np.uint32))
    assert not np.asarray(integers.copy_to_host()).any()


def test_constants_are_chosen_by_their_bits_where_nothing_is_converted():
    text = "define float @f(i1 %p) {\n  %r = select i1 %p, float -1.0, float -0.0\n  ret float %r\n}\n"
    assert "i32 bitcast (float -1.0 to i32)" in apart_from_truth(text)
    integers = text.replace("float -1.0, float -0.0", "i32 1, i32 0").replace("float", "i32")
    assert apart_from_truth(integers + "; , float ") == integers + "; , float "
