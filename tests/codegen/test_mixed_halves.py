"""Comparisons of f16 and bf16 whose bits came from the other type: LLVM 22.1 ends the process on some as they are."""

from __future__ import annotations

import functools
import json

import pytest

import nvbackend as nvb
from nvbackend import bf16, f16, i32
from nvbackend.codegen.mixed_halves import fenced
from nvbackend.codegen.ptxas import assemble
from nvbackend.isel.target.target import Target
from tests.support.devices import on_devices
from tests.support.process import python_output, run_python

TARGETS = ("sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a")
ASSEMBLED = ("half oeq", "bfloat une through memory", "half vector", "bfloat both")
PREDICATES = ("oeq", "une", "ueq", "one", "ogt", "ole", "uno")
TYPES = {"half": "bfloat", "bfloat": "half"}
KERNEL = """target triple = "nvptx64-nvidia-cuda"
declare half @llvm.fabs.f16(half)
declare bfloat @llvm.fabs.bf16(bfloat)
define ptx_kernel void @f(ptr addrspace(1) %p, half %half, bfloat %bfloat) {{
{body}
  %"as long" = zext i1 %answer to i32
  store i32 %"as long", ptr addrspace(1) %p
  ret void
}}
"""


def bodies() -> dict[str, str]:
    """Comparisons after a cast, through memory, after an absolute value, swapped, in vectors, and made of two."""
    found: dict[str, str] = {}
    for source, kind in TYPES.items():
        cast = f'%"the bits" = bitcast {source} %{source} to {kind}\n'
        through = f"store {source} %{source}, ptr addrspace(1) %p\n%again = load {kind}, ptr addrspace(1) %p\n"
        short = "f16" if kind == "half" else "bf16"
        for predicate in PREDICATES:
            name = f"{source} {predicate}"
            found[name] = f'{cast}%answer = fcmp {predicate} {kind} %"the bits", 0.0'
            found[f"{name} -0"] = f'{cast}%answer = fcmp {predicate} {kind} -0.0, %"the bits"'
            found[f"{name} fast"] = f'{cast}%answer = fcmp nsz contract {predicate} {kind} %"the bits", 0.0'
            found[f"{name} through memory"] = f"{through}%answer = fcmp {predicate} {kind} %again, 0.0"
        found[f"{source} of itself"] = (
            f'{cast}%zero = fsub nnan {kind} %{kind}, %{kind}\n%answer = fcmp oeq {kind} %"the bits", %zero'
        )
        found[f"{source} fabs"] = (
            f'{cast}%plus = call {kind} @llvm.fabs.{short}({kind} %"the bits")\n%answer = fcmp une {kind} %plus, 0.0'
        )
        found[f"{source} both"] = (
            f'{cast}%low = fcmp oge {kind} %"the bits", 0.0\n%high = fcmp ole {kind} %"the bits", 0.0\n'
            "%answer = and i1 %low, %high"
        )
        found[f"{source} vector"] = (
            f"%v = insertelement <2 x {source}> zeroinitializer, {source} %{source}, i32 0\n"
            f"%w = bitcast <2 x {source}> %v to <2 x {kind}>\n%both = fcmp oeq <2 x {kind}> %w, zeroinitializer\n"
            "%answer = extractelement <2 x i1> %both, i32 0"
        )
    return found


COMPILED = """
import json, sys
from nvbackend.codegen.llvm import compile_ir
from nvbackend.isel.target.target import Target
for name, target, level, text in json.loads(sys.argv[1]):
    ptx = compile_ir(text, Target.parse(target), optimize=level).ptx
    print(json.dumps([name, target, level, ptx]))
"""


@functools.cache
def compiled() -> dict[tuple[str, str, int], str]:
    """The PTX of every body."""
    cases = [(name, "sm_90a", level) for name in bodies() for level in (0, 1, 3)]
    cases += [(name, target, 3) for target in TARGETS for name in ASSEMBLED if target != "sm_90a"]
    said = python_output(COMPILED, json.dumps([(*each, KERNEL.format(body=bodies()[each[0]])) for each in cases]))
    return {(name, target, level): ptx for name, target, level, ptx in map(json.loads, said.splitlines())}


def test_every_comparison_is_compiled() -> None:
    assert len(compiled()) > 3 * len(bodies()) > 150
    assert all("arithmetic" not in ptx and "setp" in ptx for ptx in compiled().values())


@pytest.mark.parametrize("target", TARGETS)
def test_they_are_assembled(target: str) -> None:
    for name in ASSEMBLED:
        assert assemble(compiled()[name, target, 3], Target.parse(target))


def test_llvm_ends_the_process_without_the_fences() -> None:
    """What this is all for: where a later LLVM does not, it can go."""
    code = (
        "import sys; from nvbackend.codegen import llvm; llvm.has_both = lambda _: False\n"
        "llvm.compile_ir(sys.argv[1], llvm.Target.parse('sm_90a'))"
    )
    done = run_python(code, KERNEL.format(body=bodies()["half oeq through memory"]))
    assert done.returncode < 0
    assert "ConstantInt type" in done.stderr


@nvb.kernel("sm_90a", threads=1024)
def reread(k, out: nvb.Pointer[i32], x: nvb.Pointer(f16, 16)):
    scratch = k.shared(f16, 1024, align=16)
    t, i = k.thread_id(), k.block_id() * 1024 + k.thread_id()
    scratch[t] = x[i]
    as_brain = scratch.cast(bf16)[t]
    out[i] = k.select(as_brain == 0.0, 1, k.select(x[i].bitcast(bf16) != -0.0, 2, 3))


def test_memory_that_is_read_as_the_other_type() -> None:
    code = "import tests.codegen.test_mixed_halves as t; print(t.reread.compile().ptx)"
    assert "setp" in python_output(code)


@on_devices
def test_the_answers_are_those_of_the_bits() -> None:
    """Of all 65536 numbers, those equal to zero are the two zeros of either type."""
    import numpy as np
    from numba import cuda

    from nvbackend import runtime

    bits = np.arange(1 << 16, dtype=np.uint16)
    out = cuda.to_device(np.zeros(1 << 16, np.int32))
    loaded = runtime.load(reread.compile())
    loaded.launch(64, out, cuda.to_device(bits.view(np.float16)))
    loaded.synchronize()
    assert out.copy_to_host().tolist() == [2 if each & 0x7FFF else 1 for each in bits.tolist()]


COMPARED = """define void @f(half %a, bfloat %b, float %c) {
  %fence.9 = fcmp oeq float %c, 0.000000e+00
  %1 = fcmp nnan une half %a, 0xH0000, !dbg !3
  %2 = fcmp olt bfloat %"b 1", %b
  ret void
}
"""


def test_registers_have_fences_and_constants_have_none() -> None:
    assert fenced(COMPARED).splitlines()[1:] == [
        "  %fence.9 = fcmp oeq float %c, 0.000000e+00",
        "  %fence_.2.0 = call half @llvm.arithmetic.fence.f16(half %a)",
        "  %1 = fcmp nnan une half %fence_.2.0, 0xH0000, !dbg !3",
        '  %fence_.4.0 = call bfloat @llvm.arithmetic.fence.bf16(bfloat %"b 1")',
        "  %fence_.4.1 = call bfloat @llvm.arithmetic.fence.bf16(bfloat %b)",
        "  %2 = fcmp olt bfloat %fence_.4.0, %fence_.4.1",
        "  ret void",
        "}",
        "declare half @llvm.arithmetic.fence.f16(half)",
        "declare bfloat @llvm.arithmetic.fence.bf16(bfloat)",
    ]
