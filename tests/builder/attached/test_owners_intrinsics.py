"""What an owner's own intrinsics and texts mean for what is said after them, and its notes for LLVM."""

from __future__ import annotations

import re

import pytest
from llvmlite import binding, ir

import nvbackend as nvb
from nvbackend.builder.attached.annotations import annotated
from nvbackend.builder.kernel.kernel import TRIPLE
from nvbackend.signature import LaunchBounds, Parameter, Signature
from tests.builder.attached.test_foreign import I1, I32, asm, attached, exchanged, intrinsic, number, said

FLOAT, DOUBLE, I64 = ir.FloatType(), ir.DoubleType(), ir.IntType(64)
ONE, TWO = ir.Constant(FLOAT, 1.0), ir.Constant(DOUBLE, 2.0)
COMPUTES = {
    "llvm.sqrt.f32": ([ONE], FLOAT),
    "llvm.fma.f64": ([TWO, TWO, TWO], DOUBLE),
    "llvm.ctlz.i32": ([number(5), number(0, I1)], I32),
    "llvm.umax.i64": ([number(5, I64), number(6, I64)], I64),
    "llvm.nvvm.fmin.f": ([ONE, ONE], FLOAT),
    "llvm.nvvm.fma.rn.f": ([ONE, ONE, ONE], FLOAT),
    "llvm.nvvm.mulhi.i": ([number(5), number(6)], I32),
    "llvm.nvvm.prmt": ([number(5), number(6), number(7)], I32),
    "llvm.nvvm.read.ptx.sreg.tid.x": ([], I32),
}
"""By LLVM's LangRef and NVVM IR they give a result, of a thread's own operands, and do nothing else."""


@pytest.mark.parametrize("name", COMPUTES)
def test_an_intrinsic_that_only_computes_hides_no_mistake(name):
    k, builder, out, _ = attached()
    for _ in exchanged(k, out):
        intrinsic(builder, name, *COMPUTES[name])
    builder.ret_void()
    assert said(k) == ["shared.missing-barrier"]


OTHERS = {
    "llvm.nvvm.isspacep.of.another.day": ([], I32),
    "llvm.nvvm.suld.1d.i8.clamp": ([number(0, I64), number(0)], ir.IntType(16)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_nothing_is_said_after_an_intrinsic_that_does_more_or_is_not_known(name):
    k, builder, out, _ = attached()
    for _ in exchanged(k, out):
        intrinsic(builder, name, *OTHERS[name])
    builder.ret_void()
    assert said(k) == []
    assert any(f"the intrinsic {name}" in one for one in k.unknown)


def test_an_exchange_of_lanes_as_text_hides_no_mistake():
    """A guard keeps the text from being the catalogue's row; what it does is known all the same."""
    k, builder, out, _ = attached()
    for _ in exchanged(k, out):
        asm(builder, "@$1 shfl.sync.bfly.b32 $0, 7, 1, 31, -1;", "=r,b", [number(1, I1)], result=I32)
    builder.ret_void()
    assert not any(one.startswith("what runs after") for one in k.unknown)


@pytest.mark.parametrize("space", [".global", ".local", ""])
def test_a_store_as_text_hides_a_mistake_where_it_may_be_to_shared_memory(space):
    k, builder, out, _ = attached()
    for _ in exchanged(k, out):
        asm(builder, f"st{space}.u32 [$0], 3;", "l", [number(4096, I64)])
    builder.ret_void()
    assert said(k) == ([] if space == "" else ["shared.missing-barrier"])


@pytest.mark.parametrize("text", ["shfl.sync.bfly.f32 $0, 7, 1, 31, -1;", "vote.sync.most.b32 $0, 1, -1;"])
def test_an_exchange_that_there_is_not_is_not_known(text):
    k, builder, out, _ = attached()
    for _ in exchanged(k, out):
        asm(builder, text, "=r", result=I32)
    builder.ret_void()
    assert said(k) == []
    assert any("is not known" in one for one in k.unknown)


@pytest.mark.parametrize("earlier", [(), (0,), (0, 1, 2), (4, 0, 2)])
def test_notes_of_a_kernel_stand_beside_the_owners(earlier):
    """LLVM reads them: a number used twice is an error, and what it understood is an attribute."""
    module = ir.Module("owner")
    module.triple = TRIPLE
    kind = ir.FunctionType(ir.VoidType(), [ir.PointerType()])
    functions = [ir.Function(module, kind, name) for name in ("own", *[f"other{place}" for place in earlier])]
    nodes = [f'!{place} = !{{ ptr @other{place}, !"maxntidx", i32 {100 + place} }}' for place in earlier]
    named = [f"!nvvm.annotations = !{{ {', '.join(f'!{place}' for place in earlier)} }}"] if earlier else []
    maps = Parameter("tiles", nvb.TensorMap(nvb.f16, box=(8, 64)))
    signature = Signature("own", (maps,), LaunchBounds(threads=96))
    read = str(binding.parse_assembly(annotated("\n".join([str(module), *named, *nodes, ""]), functions[0], signature)))
    bounds = dict(re.findall(r'attributes #(\d+) = \{ "nvvm.maxntid"="(\d+)" \}', read))
    said = {name: int(bounds[note]) for name, note in re.findall(r"@(\w+)\(ptr[^)]*\) #(\d+)", read)}
    assert said == {"own": 96} | {f"other{place}": 100 + place for place in earlier}
    assert 'ptx_kernel void @own(ptr "nvvm.grid_constant")' in read
