"""Rules of attached functions that become kernels."""

from __future__ import annotations

from llvmlite import ir

import nvbackend as nvb
from nvbackend import f32, i32
from tests.rules.example import program


@program("attach.lowering")
def lowering_that_there_is_not():
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), []), "own")
    builder = ir.IRBuilder(function.append_basic_block())
    nvb.attach(builder, "sm_90a", threads=32, lowering="ptx")  # breaks
    nvb.attach(builder, "sm_90a", threads=32, lowering="asm")  # keeps


@program("attach.parameters")
def parameter_of_another_type():
    kind = ir.FunctionType(ir.VoidType(), [ir.PointerType(addrspace=1)])
    builder = ir.IRBuilder(ir.Function(ir.Module(), kind, "own").append_basic_block())
    x = nvb.Parameter("x", nvb.Scalar(i32))  # breaks
    x = nvb.Parameter("x", nvb.Pointer(f32))  # keeps
    nvb.attach(builder, "sm_90a", threads=32, parameters=[x])


@program("attach.kernel")
def function_that_is_no_kernel():
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), []), "own")
    function.calling_convention = "ptx_kernel"  # keeps
    builder = ir.IRBuilder(function.append_basic_block())
    k = nvb.attach(builder, "sm_90a", threads=32)
    builder.ret_void()
    k.verify()
    k.finish()


@program("attach.debug-kind")
def debug_information_with_variables():
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), []), "own")
    function.calling_convention = "ptx_kernel"
    file = module.add_debug_info("DIFile", {"filename": "own.dsl", "directory": ""})
    facts = {"language": ir.DIToken("DW_LANG_C"), "file": file}
    facts["emissionKind"] = ir.DIToken("FullDebug")  # breaks
    facts["emissionKind"] = ir.DIToken("DebugDirectivesOnly")  # keeps
    module.add_named_metadata("llvm.dbg.cu", module.add_debug_info("DICompileUnit", facts, is_distinct=True))
    builder = ir.IRBuilder(function.append_basic_block())
    k = nvb.attach(builder, "sm_90a", threads=32)
    builder.ret_void()
    k.verify()
    k.finish()


@program("attach.unverified")
def function_that_nobody_verified():
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), []), "own")
    function.calling_convention = "ptx_kernel"
    builder = ir.IRBuilder(function.append_basic_block())
    k = nvb.attach(builder, "sm_90a", threads=32)
    builder.ret_void()
    k.verify()  # keeps
    k.finish()


@program("llvm.no-library")
def sine_by_the_intrinsic():
    """Compiled in a process of its own, which LLVM ends."""
    module = ir.Module()
    kind = ir.FunctionType(ir.VoidType(), [ir.PointerType(addrspace=1)])
    function = ir.Function(module, kind, "own")
    function.calling_convention = "ptx_kernel"
    builder = ir.IRBuilder(function.append_basic_block())
    k = nvb.attach(builder, "sm_90a", threads=32, parameters=[nvb.Parameter("x", nvb.Pointer(f32))])
    x = k.arguments[0] + k.thread_id()
    sine = module.declare_intrinsic("llvm.sin", [ir.FloatType()])  # breaks
    x[0] = k.value(builder.call(sine, [x[0].ir]), f32)  # breaks
    x[0] = k.math.sin(x[0])  # keeps
    builder.ret_void()
    k.verify()
    k.finish().compile(assemble=False)
