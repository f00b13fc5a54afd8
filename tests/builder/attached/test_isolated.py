"""Which kernels with code of their owner's LLVM compiles in a process of its own."""

from __future__ import annotations

import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend import f32
from nvbackend.builder.functions import module
from tests.builder.attached.test_finished import I32, OUT, VOID, attach, owner


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


KINDS = {
    **{f"i{width}": ir.IntType(width) for width in (1, 8, 16, 32, 64)},
    "half": ir.HalfType(),
    "float": ir.FloatType(),
    "double": ir.DoubleType(),
    **{f"address{space}": ir.PointerType(addrspace=space) for space in (0, 1, 3)},
}
TAKEN = {
    "h": {"i16"},
    "r": {"i32"},
    "l": {"i64", "address0", "address1"},
    "f": {"float"},
    "d": {"double"},
    "n": {"i32", "i64"},
}
"""What LLVM has registers of each letter for, and numbers; an address of shared memory may have 32 or 64 bits."""


@pytest.mark.parametrize("letter", [*TAKEN, "c", "q", "0"])
def test_a_letter_takes_the_types_of_its_registers(letter):
    for name, kind in KINDS.items():
        for is_result in (False, True):
            builder = owner([])
            k = attach(builder)
            arguments = [] if is_result else [ir.Constant(kind, 1 if isinstance(kind, ir.IntType) else ir.Undefined)]
            called = ir.FunctionType(kind if is_result else VOID, [each.type for each in arguments])
            builder.asm(called, "membar.cta;", "=" * is_result + letter, arguments, side_effect=True)
            builder.ret_void()
            k.verify()
            is_taken = name in TAKEN.get(letter, ()) and not (is_result and letter == "n")
            assert k.finish().isolated is not is_taken, (name, is_result)


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


def test_what_one_function_of_the_module_has_decides_for_all_of_it():
    """LLVM compiles the module whole: the kernel's own function, before or after it, is no help."""
    for others in ((), ("bad",), ("good",), ("bad", "good"), ("good", "bad")):
        builder = owner([])
        k = attach(builder)
        for name in others:
            helper = owner([], name, builder.module, kernel=False)
            if name == "bad":
                helper.asm(ir.FunctionType(VOID, [I32]), "membar.cta;", "q", [ir.Constant(I32, 1)], side_effect=True)
            helper.ret_void()
        builder.ret_void()
        k.verify()
        assert k.finish().isolated is ("bad" in others), others


PLAIN_TYPES = (
    *(ir.IntType(width) for width in (1, 8, 16, 32, 64)),
    *(ir.HalfType(), ir.FloatType(), ir.DoubleType(), ir.PointerType(), ir.PointerType(addrspace=3)),
    ir.VectorType(I32, 4),
    ir.LiteralStructType([I32, ir.FloatType()]),
    ir.LiteralStructType([I32, ir.LiteralStructType([ir.VectorType(ir.HalfType(), 2)])]),
)
ODD_TYPES = (
    *(ir.IntType(width) for width in (2, 7, 128)),
    ir.VectorType(ir.IntType(7), 4),
    ir.LiteralStructType([ir.IntType(7), I32]),
    ir.LiteralStructType([I32, ir.IntType(7)]),
    ir.LiteralStructType([I32, ir.LiteralStructType([ir.VectorType(ir.IntType(128), 2)])]),
)


@pytest.mark.parametrize("loaded", [True, False], ids=["result", "operand"])
@pytest.mark.parametrize("kind", [*PLAIN_TYPES, *ODD_TYPES], ids=str)
def test_types_that_llvm_may_have_no_code_for_are_compiled_isolated(kind, loaded):
    builder = owner([ir.PointerType(), ir.PointerType()])
    k = attach(builder, parameters=[OUT, nvb.Parameter("more", nvb.Pointer(f32))])
    source, target = builder.function.args
    if loaded:
        builder.load(source, typ=kind)
    else:
        builder.store(ir.Constant(kind, ir.Undefined), target)
    builder.ret_void()
    k.verify()
    assert k.finish().isolated is (kind in ODD_TYPES)


class Compiled(Exception):
    """Stands in for a compile, which would end the process."""


@pytest.mark.parametrize("odd", [(), ("first",), ("second",), ("first", "second")], ids=str)
def test_a_module_is_compiled_isolated_where_one_of_its_kernels_is(odd, monkeypatch):
    def compile_kernel(*_, **options):
        raise Compiled(options["isolated"])

    monkeypatch.setattr(module, "compile_kernel", compile_kernel)
    finished = []
    for name in ("first", "second"):
        builder = owner([], name)
        k = attach(builder)
        if name in odd:
            builder.asm(ir.FunctionType(VOID, [I32]), "membar.cta;", "q", [ir.Constant(I32, 1)], side_effect=True)
        builder.ret_void()
        k.verify()
        finished.append(k.finish())
    with pytest.raises(Compiled, match=str(bool(odd))):
        nvb.compile_module(finished)
