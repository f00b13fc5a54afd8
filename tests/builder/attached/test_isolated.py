"""Which kernels with code of their owner's LLVM compiles in a process of its own."""

from __future__ import annotations

import pytest
from llvmlite import ir

from tests.builder.attached.test_finished import I32, VOID, attach, owner


@pytest.mark.parametrize(
    ("text", "constraints", "returned", "passed", "isolated"),
    [
        ("membar.cta;", "q", VOID, I32, True),
        ("membar.cta;", "=r", VOID, None, True),
        ("membar.cta;", "f", VOID, I32, True),
        ("membar.cta; // $", "", VOID, None, True),
        ("mov.u32 ${0:z}, 0;", "=r", I32, None, True),
        ("mov.u32 $0, $1;", "=r,0", I32, ir.FloatType(), True),
        ("mov.u32 $0, $1;", "=r,0", I32, I32, False),
        ("mov.u32 $0, $1;", "=&r,r,~{memory}", I32, I32, False),
    ],
)
def test_constraints_that_do_not_fit_their_operands_are_compiled_isolated(
    text, constraints, returned, passed, isolated
):
    """LLVM asserts most of them: the process would end."""
    builder = owner([])
    k = attach(builder)
    types = [] if passed is None else [passed]
    called = ir.FunctionType(returned, types)
    builder.asm(called, text, constraints, [ir.Constant(each, 1) for each in types], side_effect=True)
    builder.ret_void()
    k.verify()
    assert k.finish().isolated is isolated


@pytest.mark.parametrize(
    ("name", "returned", "passed", "isolated"),
    [
        ("barrier0", VOID, [], False),
        ("barrier0", I32, [], True),
        ("barrier0.popc", I32, [I32], False),
        ("barrier0.popc", VOID, [I32], True),
        ("barrier0.and", I32, [ir.FloatType()], True),
        ("read.ptx.sreg.tid.x", I32, [], False),
        ("read.ptx.sreg.cluster.ctarank", I32, [], True),
    ],
)
def test_intrinsics_that_llvm_may_not_take_are_compiled_isolated(name, returned, passed, isolated):
    """It replaces earlier names without a look at their types, and not every target has every register."""
    builder = owner([])
    k = attach(builder)
    called = ir.Function(builder.module, ir.FunctionType(returned, passed), f"llvm.nvvm.{name}")
    builder.call(called, [ir.Constant(each, 1) for each in passed])
    builder.ret_void()
    k.verify()
    assert k.finish().isolated is isolated


def test_calls_of_ordinary_functions_and_arithmetic_are_compiled_here():
    builder = owner([])
    k = attach(builder)
    other = ir.Function(builder.module, ir.FunctionType(I32, [I32]), "other")
    builder.add(builder.call(other, [ir.Constant(I32, 1)]), ir.Constant(I32, 2))
    builder.ret_void()
    k.verify()
    assert not k.finish().isolated
