"""The calls on somebody else's llvmlite function."""

from __future__ import annotations

import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend import f16, f32, i32
from nvbackend.builder.kernel.kernel import TRIPLE
from nvbackend.builder.value_tracking.expressions.bits import Multiples
from nvbackend.codegen.isolated import compile_ir_isolated
from nvbackend.codegen.llvm import compile_ir
from tests.support.ptxas import assemble
from tests.support.runtime import rules


def foreign(name="foreign"):
    module = ir.Module("foreign")
    module.triple = TRIPLE
    kind = ir.FunctionType(ir.VoidType(), [ir.PointerType(addrspace=1), ir.IntType(32)])
    function = ir.Function(module, kind, name)
    function.calling_convention = "ptx_kernel"
    return module, ir.IRBuilder(function.append_basic_block("entry")), function


def region(k, tile, acc):
    with k.wgmma.group():
        k.wgmma.mma_async(acc, tile, tile, nvb.wgmma.mma_async("m64n64k16", f16, f16, f32))


def test_calls_emit_where_the_owners_builder_stands():
    module, builder, function = foreign()
    k = nvb.attach(builder, "sm_90a", threads=128)
    tile = k.shared_tile(nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64))
    acc = k.wgmma.accumulator(64)
    loop, done = function.append_basic_block("own.loop"), function.append_basic_block("own.done")
    builder.branch(loop)
    builder.position_at_end(loop)
    region(k, tile, acc)
    again = k.value(function.args[1], i32) > 4
    builder.cbranch(again.ir, loop, done)
    builder.position_at_end(done)
    builder.store(acc[0].ir, function.args[0])
    builder.ret_void()
    assert k.verify() == ()
    assert k.shared_bytes == 64 * 64 * 2
    ptx = compile_ir(str(module), k.target).ptx
    assert ptx.count("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16") == 1


def test_the_owners_control_flow_is_followed():
    _, builder, function = foreign()
    k = nvb.attach(builder, "sm_90a", threads=128)
    tile = k.shared_tile(nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64))
    acc = k.wgmma.accumulator(64)
    with k.wgmma.group(in_flight=1):
        k.wgmma.mma_async(acc, tile, tile, nvb.wgmma.mma_async("m64n64k16", f16, f16, f32))
    waits, done = function.append_basic_block("waits"), function.append_basic_block("done")
    builder.cbranch((k.value(function.args[1], i32) > 4).ir, waits, done)
    builder.position_at_end(waits)
    k.wgmma.wait_group(0)
    builder.branch(done)
    builder.position_at_end(done)
    builder.store(acc[0].ir, function.args[0])
    builder.ret_void()
    with pytest.raises(nvb.DiagnosticError, match=r"wgmma\.read-in-flight"):
        k.verify()


def test_an_unknown_target_is_refused():
    _, builder, _ = foreign()
    with pytest.raises(nvb.DiagnosticError, match=r"target\.unknown"):
        nvb.attach(builder, "hopper", threads=128)


def test_nothing_stays_behind_an_exit():
    module, builder, function = foreign()
    k = nvb.attach(builder, "sm_90a", threads=128)
    number = k.value(function.args[1], i32)
    k.return_()
    for call in (
        lambda: number + number,
        lambda: number + 1,
        lambda: number.to(f32),
        k.barrier.sync,
        lambda: k.shared(i32, 4)[number],
    ):
        with pytest.raises(nvb.DiagnosticError, match=r"control\.unreachable"):
            call()
        assert builder._anchor == len(builder.block.instructions), "where its owner would go on"
    assert k.verify() == ()
    assert "ret;" in compile_ir(str(module), k.target).ptx


NAMES = (
    *(
        "k",
        "_k",
        "$k",
        "%k",
        "k$1",
        "_Z3fooPf",
        "9k",
        "k.1",
        "k k",
        "k{",
        "_",
        "WARP_SZ",
        "k-1",
        "k\0",
        "k\n",
        "\u00e9",
    ),
)


@pytest.mark.parametrize("name", NAMES)
def test_a_function_has_a_name_that_llvm_and_ptxas_take(name: str) -> None:
    """LLVM ends its process for some of the others."""
    module, builder, function = foreign(name)
    builder.store(ir.Constant(ir.IntType(32), 1), function.args[0])
    refused = rules(lambda: nvb.attach(builder, "sm_90a", threads=128))
    builder.ret_void()
    try:
        ptx = compile_ir_isolated(str(module), nvb.Target.parse("sm_90a")).ptx
        taken, said = assemble(ptx, "sm_90a")
    except nvb.DiagnosticError as error:
        taken, said = False, str(error)
    assert refused == ([] if taken else ["kernel.name"]), said


def test_a_local_function_is_renamed_by_llvm() -> None:
    _, builder, function = foreign("helper.1")
    function.linkage = "internal"
    assert rules(lambda: nvb.attach(builder, "sm_90a", threads=128)) == []


@pytest.mark.parametrize("operation", ["shl", "lshr", "ashr"])
@pytest.mark.parametrize(("bits", "amount"), [(32, -1), (32, 32), (32, 1 << 31), (64, -5), (64, 64), (64, 1 << 40)])
def test_an_index_shifted_by_what_is_not_defined_is_not_known(operation: str, bits: int, amount: int) -> None:
    kind = ir.IntType(bits)
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [ir.PointerType(addrspace=1), kind]), "shifted")
    builder = ir.IRBuilder(function.append_basic_block())
    k = nvb.attach(builder, "sm_90a", threads=128)
    shared = k.shared(f32, 64)
    index = k.value(
        getattr(builder, operation)(function.args[1], ir.Constant(kind, amount)), nvb.s32 if bits == 32 else nvb.s64
    )
    shared[index] = 1.0
    k.global_address(function.args[0], f32, 16)[index] = 1.0
    builder.ret_void()
    k.verify()
    assert Multiples().divisor(index.ir) == 1
