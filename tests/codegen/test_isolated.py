"""IR that ends LLVM's process, compiled where that does no harm."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend.codegen.isolated import compile_ir_isolated
from nvbackend.codegen.llvm import compile_ir
from nvbackend.diagnostics import DiagnosticError
from nvbackend.isel.target.target import Target
from tests.support.ir_texts import SCALE, TCGEN05_FENCE
from tests.support.process import run_python

HOPPER = Target.parse("sm_90a")
BLACKWELL = Target.parse("sm_100a")


def test_it_gives_what_the_compile_gives() -> None:
    older = Target.parse("sm_90a", (8, 4))
    assert compile_ir_isolated(SCALE, older, optimize=1) == compile_ir(SCALE, older, optimize=1)


def test_an_instruction_the_chip_has_not_got() -> None:
    with pytest.raises(DiagnosticError) as caught:
        compile_ir_isolated(TCGEN05_FENCE, HOPPER)
    (found,) = caught.value.diagnostics
    assert found.rule_id == "llvm.cannot-select"
    assert "llvm.nvvm.tcgen05.fence.before.thread.sync" in found.message
    assert "sm_90a" in found.message
    assert "tcgen05.fence::before_thread_sync" in compile_ir_isolated(TCGEN05_FENCE, BLACKWELL).ptx


@pytest.mark.parametrize(
    ("function", "kind", "name"),
    [
        ("sin", "float", "@llvm.sin.f32"),
        ("tanh", "float", '@"llvm.tanh.f32"'),
        ("exp", "float", '@"llvm.exp.f32"'),
        ("log10", "double", "@llvm.log10.f64"),
        ("exp10", "double", '@"llvm.exp10.f64"'),
        ("tan", "float", "@llvm.tan.f32"),
    ],
)
def test_a_function_of_a_library_that_there_is_not(function: str, kind: str, name: str) -> None:
    """Some LLVM cannot select, for others it has no library call: to a language both are one mistake."""
    text = f"""
declare {kind} {name}({kind})

define ptx_kernel void @k(ptr addrspace(1) %p) {{
  %x = load {kind}, ptr addrspace(1) %p
  %y = call {kind} {name}({kind} %x)
  store {kind} %y, ptr addrspace(1) %p
  ret void
}}
"""
    with pytest.raises(DiagnosticError) as caught:
        compile_ir_isolated(text, HOPPER)
    (found,) = caught.value.diagnostics
    assert found.rule_id == "llvm.no-library"
    assert f"no instruction for {function} in 'call {kind} {name}({kind} %x)'" in found.message
    math = nvb.KernelBuilder("k", "sm_90a", threads=32).math
    assert (f"use k.math.{function} of" in (found.fix or "")) == hasattr(math, function)


def test_the_same_ends_a_process_that_is_not_isolated() -> None:
    done = run_python(
        "import sys\n"
        "from nvbackend.codegen.llvm import compile_ir\n"
        "from nvbackend.isel.target.target import Target\n"
        "from tests.support.ir_texts import TCGEN05_FENCE\n"
        "compile_ir(TCGEN05_FENCE, Target.parse('sm_90a'))\n"
    )
    assert done.returncode < 0
    assert "DiagnosticError" not in done.stderr


def test_another_death_of_llvm() -> None:
    text = """
define ptx_kernel void @k(ptr %p) {
  %r = call i32 asm sideeffect "mov.u32 $0, 1;", "=x"()
  store i32 %r, ptr %p
  ret void
}
"""
    with pytest.raises(DiagnosticError) as caught:
        compile_ir_isolated(text, HOPPER)
    (found,) = caught.value.diagnostics
    assert found.rule_id == "llvm.died"
    assert "constraint 'x'" in found.message


@pytest.mark.parametrize(
    ("text", "level", "rule"),
    [
        ("define void @k() {\n  %x = add i32 1, 1.0\n", 3, "llvm.invalid-ir"),
        ('target triple = "x86_64"\n', 3, "llvm.foreign-triple"),
        ("", 7, "llvm.optimize"),
        (
            "declare void @llvm.nvvm.x()\ndefine void @k() {\n  call void @llvm.nvvm.x()\n  ret void\n}\n",
            3,
            "llvm.unknown-intrinsic",
        ),
    ],
)
def test_diagnostics_of_the_compile_come_through(text: str, level: int, rule: str) -> None:
    with pytest.raises(DiagnosticError) as isolated:
        compile_ir_isolated(text, HOPPER, optimize=level)
    with pytest.raises(DiagnosticError) as here:
        compile_ir(text, HOPPER, optimize=level)
    assert [found.rule_id for found in isolated.value.diagnostics] == [rule]
    assert isolated.value.diagnostics[0].message == here.value.diagnostics[0].message


LINED = """
define ptx_kernel void @k(ptr %p, i32 %x) !dbg !4 {
  %ok = call i32 asm sideeffect "mov.b32 $0, ($1);", "=r,r"(i32 %x), !dbg !5
  %bad = call { i32, i32 } asm sideeffect "mov.b32 $0, $2;", "=r,=x,r,l"(i32 %ok, ptr addrspace(0) %p), !dbg !6
  %part = extractvalue { i32, i32 } %bad, 0
  store i32 %part, ptr %p
  ret void
}
!llvm.dbg.cu = !{!1}
!llvm.module.flags = !{!0}
!0 = !{i32 2, !"Debug Info Version", i32 3}
!1 = distinct !DICompileUnit(language: DW_LANG_Python, file: !2, emissionKind: DebugDirectivesOnly)
!2 = !DIFile(filename: "owner.dsl", directory: "")
!4 = distinct !DISubprogram(name: "k", scope: !2, file: !2, line: 1, spFlags: DISPFlagDefinition, unit: !1)
!5 = !DILocation(line: 7, column: 1, scope: !4)
!6 = !DILocation(line: 9, column: 1, scope: !4)
"""


def test_the_call_and_its_line_are_named() -> None:
    """Of two calls the one that LLVM has no register for, by compiling each in a process of its own."""
    with pytest.raises(DiagnosticError) as caught:
        compile_ir_isolated(LINED, HOPPER)
    (found,) = caught.value.diagnostics
    assert found.rule_id == "llvm.died"
    assert '"=r,=x,r,l"(i32 %ok, ptr addrspace(0) %p)' in found.message
    assert found.location is not None
    assert (found.location.file, found.location.line) == ("owner.dsl", 9)


def test_a_death_of_no_call_names_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nvbackend.codegen.isolated._FINDER", "raise SystemExit(1)")
    with pytest.raises(DiagnosticError) as caught:
        compile_ir_isolated(TCGEN05_FENCE, HOPPER)
    assert caught.value.diagnostics[0].message.startswith("LLVM has no instruction for the module on sm_90a")
