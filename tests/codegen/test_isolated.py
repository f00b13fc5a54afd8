"""IR that ends LLVM's process, compiled where that does no harm."""

from __future__ import annotations

import pytest

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
