"""LTO-IR: what libNVVM makes of functions, read back by nvJitLink, expanded in callers, and run in the simulator."""

from __future__ import annotations

import re

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, bf16, f16, f32, f64, i32, u32
from nvbackend.codegen import disassemble, ptx_of_lto_ir
from nvbackend.codegen.lto.dialect import DATA_LAYOUT
from nvbackend.codegen.lto.libraries import is_there, linked, nvvm_compiled
from tests.support.linked_functions import FUNCTIONS
from tests.support.ptxas import assemble

needs_both = pytest.mark.skipif(not is_there(), reason="needs nvJitLink: pip install nvidia-nvjitlink")
TARGETS = ("sm_80", "sm_90a", "sm_100")
"""Two of LLVM 7's dialect, and one of today's."""


@nvb.function
def mixed(k, x: f32, y: f32, i: i32, h: f16) -> f32:
    ratio = (x * y + x) / (y - 1.5) - x
    halves = (h * h + h - x.to(f16)).to(f32)
    whole = k.math.min(i, 7) // 3 + k.math.max(i.to(u32), 5).to(i32) + i % 5 + (i >> 1)
    double = (x.to(f64) * y.to(f64) - x.to(f64)).to(f32)
    return ratio + halves + whole.to(f32) + double + k.math.max(-x, y) + k.select(x > y, k.math.sqrt(y), x)


@nvb.function
def curved(k, x: f32, y: f32) -> f32:
    return k.math.sin(x) + k.math.exp(y * 0.125) + k.math.tanh(x)


@nvb.function
def looped(k, row: nvb.Pointer(f32, align=4), count: i32) -> f32:
    total = k.var(0.0)
    with k.range(count) as i, k.if_(row[i] > 0.0):
        total += row[i] * 2.0
    row[0] = total
    return total


@nvb.function
def in_double(k, x: f64, y: f64) -> f64:
    return x * y + y


@nvb.function
def in_bf16(k, x: bf16, y: bf16) -> bf16:
    return x * y + y


def refusal(make):
    """The one rule that breaks, and its message."""
    with pytest.raises(DiagnosticError) as caught:
        make()
    (diagnostic,) = caught.value.diagnostics
    return diagnostic.rule_id, diagnostic.message


@needs_both
@pytest.mark.sampled(3)
@pytest.mark.parametrize("target", TARGETS)
def test_ptxas_accepts_what_nvjitlink_makes_of_it(target) -> None:
    for function in (*FUNCTIONS, mixed, curved, looped):
        text = ptx_of_lto_ir(function.compile(target).lto_ir(), function.name, target)
        done, said = assemble(text, target)
        assert done, said


@needs_both
@pytest.mark.sampled(3)
@pytest.mark.parametrize("target", TARGETS)
def test_it_computes_the_same_bits(target) -> None:
    made = [each.compile(target) for each in (mixed, curved, looped)]
    texts = {each.name: (each.ptx, ptx_of_lto_ir(each.lto_ir(), each.name, target)) for each in made}
    results = []
    for which in (0, 1):
        kinds = {"x": f32, "y": f32, "i": i32, "h": f16}
        sums = nvb.extern_function("mixed", kinds, f32, ptx=texts["mixed"][which])
        curves = nvb.extern_function("curved", {"x": f32, "y": f32}, f32, ptx=texts["curved"][which])
        loop = nvb.extern_function(
            "looped",
            {"row": nvb.Pointer(f32, align=4), "count": i32},
            f32,
            ptx=texts["looped"][which],
            effects=("reads row", "writes row"),
        )

        results.append(_run(target, sums, curves, loop))
    assert results[0].tobytes() == results[1].tobytes()


def _run(target, sums, curves, loop):
    """The numbers of the functions for 32 threads, in the simulator."""

    @nvb.kernel(target, threads=32)
    def caller(k, x: nvb.Pointer(f32, align=4), y: nvb.Pointer(f32, align=4), out: nvb.Pointer(f32, align=4)):
        t = k.thread_id()
        out[t] = sums(k, x[t], y[t], t - 9, y[t].to(f16)) + curves(k, x[t], y[t])
        with k.if_(t == 0):
            out[32] = loop(k, y, 20)

    random = np.random.default_rng(7)
    x, y = (random.normal(size=32).astype(np.float32) * 3 for _ in range(2))
    out = np.zeros(33, np.float32)
    text = caller.compile(assemble=False).ptx
    nvb.simulator.Simulator().load(text).launch("caller", block=(32, 1, 1), args=[x, np.abs(y), out])
    assert np.isfinite(out).all()
    assert out[32] > 0
    return out


@needs_both
@pytest.mark.parametrize("target", ["sm_90", "sm_100"])
def test_products_and_sums_are_not_fused(target) -> None:
    text = ptx_of_lto_ir(mixed.compile(target).lto_ir(), "mixed", target)
    assert "fma" not in text
    for function, name in ((in_double, "f64"), (in_bf16, "bf16"))[: 1 + (target == "sm_100")]:
        text = ptx_of_lto_ir(function.compile(target).lto_ir(), function.name, target)
        assert f"mul.rn.{name}" in text
        assert f"add.rn.{name}" in text
        assert "fma" not in text


CALLER = f"""
target datalayout = "{DATA_LAYOUT}"
target triple = "nvptx64-nvidia-cuda"
declare float @scaled(float, i32)
define void @caller(float* %x) {{
  %v = load float, float* %x
  %s = call float @scaled(float %v, i32 3)
  store float %s, float* %x
  ret void
}}
@llvm.used = appending global [1 x i8*] [i8* bitcast (void (float*)* @caller to i8*)], section "llvm.metadata"
!nvvm.annotations = !{{!0}}
!0 = !{{void (float*)* @caller, !"kernel", i32 1}}
!nvvmir.version = !{{!1}}
!1 = !{{i32 2, i32 0}}
"""
"""A kernel as another compiler writes it."""


@needs_both
def test_a_foreign_kernel_has_its_body() -> None:
    own = next(function for function in FUNCTIONS if function.name == "scaled").compile("sm_90")
    caller = nvvm_compiled(CALLER, ["-arch=compute_90", "-gen-lto"])
    instructions = disassemble(linked([caller, own.lto_ir()], ["-arch=sm_90"]))
    assert not re.search(r"\bCALL\b|\bRET\b", instructions)
    # x * 3.0: the number is known once the body is in the caller.
    assert re.search(r"FMUL R\d+, R\d+, 3 ", instructions)


@needs_both
def test_a_foreign_function_is_called() -> None:
    module = CALLER.partition("declare")[0] + (
        "define float @halved(float* %p, float %x) {\n  %v = load float, float* %p\n  %h = fmul float %v, 5.0e-1\n"
        "  %r = fadd float %h, %x\n  ret float %r\n}\n!nvvmir.version = !{!1}\n!1 = !{i32 2, i32 0}\n"
    )
    foreign = nvvm_compiled(module, ["-arch=compute_80", "-gen-lto"])
    for target in ("sm_80", "sm_90a", "sm_100"):
        text = ptx_of_lto_ir(foreign, "halved", target)
        kinds = {"p": nvb.Pointer(f32, align=4), "x": f32}
        compiled = _caller_of(nvb.extern_function("halved", kinds, f32, ptx=text, effects=("reads p",)), target)
        assert compiled.cubin is not None
        x = np.arange(32, dtype=np.float32)
        nvb.simulator.Simulator().load(compiled.ptx).launch("caller", block=(32, 1, 1), args=[x])
        assert (x == np.arange(32) / 2 + 1).all()


def _caller_of(halved, target):
    @nvb.kernel(target, threads=32)
    def caller(k, x: nvb.Pointer(f32, align=4)):
        t = k.thread_id()
        x[t] = halved(k, x + t, 1.0)

    return caller.compile()


def test_what_libnvvm_lacks_is_refused() -> None:
    @nvb.function
    def reduced(k, x: i32) -> i32:
        return k.warp.reduce("add", x)

    rule, message = refusal(reduced.compile("sm_90").lto_ir)
    assert rule == "lto.dialect"
    assert "llvm.nvvm.redux.sync.add" in message
    assert reduced.compile("sm_100").lto_ir()

    flushed = mixed.compile("sm_90", math=nvb.MathPolicy(ftz=True))
    assert "denormals" in refusal(flushed.lto_ir)[1]


@needs_both
def test_what_is_not_there_is_refused() -> None:
    own = mixed.compile("sm_90a").lto_ir()
    assert "no function other" in refusal(lambda: ptx_of_lto_ir(own, "other", "sm_90a"))[1]
    assert refusal(lambda: ptx_of_lto_ir(own, "mixed", "sm_80"))[0] == "lto.input"


def test_what_is_no_lto_ir_is_refused() -> None:
    assert refusal(lambda: ptx_of_lto_ir(b".version 9.0", "f", "sm_90"))[0] == "lto.input"
    assert "it is a str, not bytes" in refusal(lambda: ptx_of_lto_ir("text", "f", "sm_90"))[1]
    assert "is not the name" in refusal(lambda: ptx_of_lto_ir(b"\xedCN\x7f", "a b", "sm_90"))[1]


def test_the_same_function_gives_the_same_bytes() -> None:
    assert mixed.compile("sm_90").lto_ir() == mixed.compile("sm_90").lto_ir()
