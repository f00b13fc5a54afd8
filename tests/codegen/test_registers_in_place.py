"""Assembly that reads the registers of accumulators where others would be copied for it, and what takes copies."""

from __future__ import annotations

import pytest

from nvbackend.codegen.llvm import compile_ir
from nvbackend.codegen.stages.accumulators import held
from tests.codegen.test_accumulators import ADDED, SM_90A, numbers

PURE = '  %"sum" = call float asm  "sub.rn.f32 $0, $2, $1;", "=f,f,f"(float %".6", float %".7"), !dbg !3\n'


def read_by(pure: str, *more: str) -> str:
    """A kernel in which assembly alone takes both variables at the end, unless `more` does."""
    loads = """  %".6" = load float, float* %"a"\n  %".7" = load float, float* %"b"\n"""
    text = ADDED.replace('  %".6" = load float, float* %"a"\n', loads + pure + "".join(more))
    text = text.replace("$0, 0f40400000;", "$0, 0f40400000; mov.f32 $1, 0f3F800000;")
    text = text.replace('  store float %".5", ptr addrspace(1) %"out"\n', "")
    return text.replace('store float %".6"', 'store float %"sum"')


def test_assembly_that_alone_takes_values_reads_their_registers() -> None:
    text = held(read_by(PURE))
    assert '%"sum" = call float asm sideeffect "sub.rn.f32 $0, %acc0_1, %acc0_0;", "=f"(), !dbg !3\n' in text
    assert "mov.b32" not in text  # a copy
    assert numbers(compile_ir(read_by(PURE.replace(", !dbg !3", "")), SM_90A).ptx)[0] == 1 - 3


def test_what_others_take_too_is_copied() -> None:
    text = held(read_by(PURE, '  store float %".7", ptr addrspace(1) %"out"\n'))
    assert 'call float asm sideeffect "mov.b32 $0, %acc0_1;", "=f"()' in text
    assert text.count("mov.b32") == 1
    assert '"sub.rn.f32 $0, %acc0_1, %acc0_0;"' in text


@pytest.mark.parametrize(
    "written",
    [
        PURE.replace("asm ", "asm sideeffect"),
        PURE.replace("$0, $2", "${0:c}, $2"),
        PURE.replace("$2, $1;", "$2, $1; // $$1"),
        PURE.replace('float %".7")', "float 1.0)"),
        PURE.replace('"=f,f,f"', '"=f,f,f,~{memory}"'),
        PURE.replace('"=f,f,f"', '"=f,f,0"'),
    ],
)
def test_other_assembly_takes_copies(written: str) -> None:
    assert written != PURE
    line = written.rstrip("\n")
    assert line in held(read_by(written))
