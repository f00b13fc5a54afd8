"""How a kernel is declared, and what it is made of: its name, parameters, bounds, barriers and registers."""

from __future__ import annotations

import pickle

from llvmlite import ir

import nvbackend as nvb
from nvbackend import f16, f32, i32
from tests.rules.example import kernel, program


@program("call.unknown")
def call_that_does_not_exist():
    k = nvb.KernelBuilder("k", "sm_90a", threads=32)
    k.barrier_sync()  # breaks
    k.barrier.sync()  # keeps
    return k.finish()


@program("call.noun")
def noun_called_as_if_it_were_an_instruction():
    k = nvb.KernelBuilder("k", "sm_90a", threads=32)
    k.barrier()  # breaks
    k.barrier.sync()  # keeps
    return k.finish()


def _of_a_module(k, x: nvb.Pointer[f32]):
    x[k.thread_id()] = 1.0


@program("call.pickle")
def pickle_of_a_kernel_that_a_call_makes():
    def of_a_call(k, x: nvb.Pointer[f32]):
        x[k.thread_id()] = 1.0

    made = nvb.kernel("sm_90a", threads=32)(of_a_call)  # breaks
    made = nvb.kernel("sm_90a", threads=32)(_of_a_module)  # keeps
    pickle.dumps(made)


@kernel("call.not-called")
def barrier_without_parentheses(k, x: nvb.Pointer[f32]):
    box, thread = k.shared(f32, 128), k.thread_id()
    box[thread] = x[thread]
    k.barrier.sync  # breaks
    k.barrier.sync()  # keeps
    x[thread] = box[127 - thread]


@program("kernel.bounds")
def threads_that_are_no_whole_warps():
    nvb.KernelBuilder("k", "sm_90a", threads=100)  # breaks
    nvb.KernelBuilder("k", "sm_90a", threads=128)  # keeps


@program("machine.register-room")
def columns_that_no_thread_has_registers_for():
    k = nvb.KernelBuilder("k", "sm_100a", threads=1024, parameters=[nvb.Parameter("tmem", nvb.Scalar(nvb.u32))])
    k.tcgen05.ld(k.arguments[0], "32x32b", 128)  # breaks
    k.tcgen05.wait_ld(k.tcgen05.ld(k.arguments[0], "32x32b", 32))  # keeps
    return k.finish()


@program("kernel.finished")
def code_behind_finish():
    k = nvb.KernelBuilder("k", "sm_90a", threads=32)
    k.barrier.sync()  # keeps
    k.finish()
    k.barrier.sync()  # breaks


@program("kernel.function")
def generator_as_a_kernel():
    def body(k):
        yield k  # breaks
        k.barrier.sync()  # keeps

    nvb.kernel("sm_90a", threads=32)(body).build()


@program("kernel.check")
def sizes_of_a_dry_run():
    @nvb.kernel("sm_90a", threads=128)
    def scale(k, x: nvb.Pointer[f32], n: nvb.i32):
        with k.range(k.thread_id(), n, 128) as i:
            x[i] = x[i] * 2.0

    scale.build(check=[{"size": 256}])  # breaks
    scale.build(check=[{"n": 256}])  # keeps


@program("kernel.outer")
def builder_of_the_kernel_around():
    @nvb.kernel("sm_90a", threads=128)
    def outer(k):
        @nvb.kernel("sm_90a", threads=32)
        def inner(own):
            k.barrier.sync()  # breaks
            own.barrier.sync()  # keeps

        inner.build()
        k.barrier.sync()

    outer.build()


@program("kernel.name")
def name_with_a_blank():
    nvb.KernelBuilder("my kernel", "sm_90a", threads=32)  # breaks
    nvb.KernelBuilder("my_kernel", "sm_90a", threads=32)  # keeps


@program("kernel.reserved-name")
def kernel_with_the_name_of_what_prints():
    nvb.KernelBuilder("vprintf", "sm_90a", threads=32)  # breaks
    nvb.KernelBuilder("prints", "sm_90a", threads=32)  # keeps


@program("kernel.parameter")
def pair_as_a_parameter():
    parameter = ("count", i32)  # breaks
    parameter = nvb.Parameter("count", i32)  # keeps
    nvb.KernelBuilder("k", "sm_90a", threads=32, parameters=[parameter])


@program("kernel.parameter-fact")
def pointer_to_shared_memory():
    pointer = nvb.Pointer(f32, space="shared")  # breaks
    pointer = nvb.Pointer(f32)  # keeps
    nvb.KernelBuilder("k", "sm_90a", threads=32, parameters=[nvb.Parameter("x", pointer)])


@program("pointer.align")
def pointer_with_an_odd_alignment():
    return nvb.Pointer(f32, align=3)  # breaks
    return nvb.Pointer(f32, align=4)  # keeps


@program("kernel.scalar-values")
def multiple_of_nothing():
    nvb.i32(minimum=1, multiple_of=0)  # breaks
    nvb.i32(minimum=1, multiple_of=8)  # keeps


@kernel("kernel.warp")
def thread_of_a_warp_that_is_not_there(k, out: nvb.Pointer[i32]):
    with k.one_thread(4):  # breaks
        out[0] = 1  # breaks
    with k.one_thread(3):  # keeps
        out[0] = 1  # keeps


@kernel("control.other-warp")
def thread_of_a_warp_that_does_not_come(k, out: nvb.Pointer[i32]):
    with k.if_(k.warp_id() == 1):
        with k.one_thread():  # breaks
            out[0] = 1  # breaks
        with k.one_thread(1):  # keeps
            out[0] = 1  # keeps


@kernel("barrier.id")
def seventeenth_barrier(k):
    k.barrier.sync(16)  # breaks
    k.barrier.sync(15)  # keeps


@kernel("barrier.threads")
def barrier_of_three_warps_and_a_half(k):
    k.barrier.sync(1, 112)  # breaks
    k.barrier.sync(1, 128)  # keeps


@kernel("barrier.waits")
def barrier_for_more_threads_than_there_are(k):
    k.barrier.sync(1, 256)  # breaks
    k.barrier.sync(1, 128)  # keeps


@kernel("barrier.crowd")
def two_warps_at_a_barrier_of_one(k):
    with k.if_(k.warp_id() < 2):
        k.barrier.sync(1, 32)  # breaks
        k.barrier.sync(1, 64)  # keeps


@kernel("setmaxnreg.range")
def registers_by_sixteen(k):
    k.setmaxnreg.inc(236)  # breaks
    k.setmaxnreg.inc(232)  # keeps


@program("setmaxnreg.target")
def register_budget_without_the_suffix():
    k = nvb.KernelBuilder("k", "sm_90", threads=128)  # breaks
    k = nvb.KernelBuilder("k", "sm_90a", threads=128)  # keeps
    k.setmaxnreg.dec(40)


@kernel("register.name")
def special_register_that_is_none(k, out: nvb.Pointer[i32]):
    out[0] = k.special_register("tid.w")  # breaks
    out[0] = k.special_register("tid.z")  # keeps


@kernel("call.argument")
def text_as_an_element_type(k):
    k.shared("f16", 64)  # breaks
    k.shared(f16, 64)  # keeps


@program("attach.place")
def builder_that_stands_nowhere():
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), []), "own")
    place = ir.IRBuilder()  # breaks
    place = ir.IRBuilder(function.append_basic_block())  # keeps
    nvb.attach(place, "sm_90a", threads=32)


@program("attach.order")
def builder_that_goes_back():
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), []), "own")
    builder = ir.IRBuilder(function.append_basic_block())
    k = nvb.attach(builder, "sm_90a", threads=32)
    k.barrier.sync()
    builder.position_at_start(builder.block)  # breaks
    k.barrier.sync()


@program("attach.again")
def function_with_two_builders():
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), []), "own")
    builder = ir.IRBuilder(function.append_basic_block())
    first = nvb.attach(builder, "sm_90a", threads=32)
    other = ir.IRBuilder(builder.block)  # breaks
    other = builder  # keeps
    assert nvb.attach(other, "sm_90a", threads=32) is first


@program("attach.shared-base")
def shared_memory_before_the_first_byte():
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), []), "own")
    builder = ir.IRBuilder(function.append_basic_block())
    nvb.attach(builder, "sm_90a", threads=32, shared_base=-512)  # breaks
    nvb.attach(builder, "sm_90a", threads=32, shared_base=512)  # keeps


@program("attach.shared")
def callee_in_the_memory_of_its_caller():
    module = ir.Module()
    caller, callee = (ir.Function(module, ir.FunctionType(ir.VoidType(), []), name) for name in ("caller", "callee"))
    outside, inside = (ir.IRBuilder(function.append_basic_block()) for function in (caller, callee))
    outer = nvb.attach(outside, "sm_90a", threads=32)
    outer.shared(f32, 32)
    inner = nvb.attach(inside, "sm_90a", threads=32)  # breaks
    inner = nvb.attach(inside, "sm_90a", threads=32, shared_base=outer.shared_bytes)  # keeps
    inner.shared(f32, 32)
    inside.ret_void()
    outside.call(callee, [])
    outside.ret_void()
    inner.verify()


@program("attach.threads")
def callee_of_more_threads_than_its_caller():
    module = ir.Module()
    caller, callee = (ir.Function(module, ir.FunctionType(ir.VoidType(), []), name) for name in ("caller", "callee"))
    outside, inside = (ir.IRBuilder(function.append_basic_block()) for function in (caller, callee))
    nvb.attach(outside, "sm_90a", threads=128)
    inner = nvb.attach(inside, "sm_90a", threads=256)  # breaks
    inner = nvb.attach(inside, "sm_90a", threads=128)  # keeps
    inside.ret_void()
    outside.call(callee, [])
    outside.ret_void()
    inner.verify()


@kernel("accumulator.store")
def accumulator_to_another_type(k, out: nvb.Pointer(f16, align=8)):
    acc = k.wgmma.accumulator(64)
    acc.fill(0.0)
    k.store_accumulator(acc, out, 64)  # breaks
    k.store_accumulator(acc, out.cast(f32), 64)  # keeps


@kernel("accumulator.stride")
def rows_at_odd_elements(k, out: nvb.Pointer(f32, align=8)):
    acc = k.wgmma.accumulator(64)
    acc.fill(0.0)
    stride = 65  # breaks
    stride = 66  # keeps
    k.store_accumulator(acc, out, stride)


@kernel("epilogue.accumulator")
def epilogue_of_another_width(k, c: nvb.TensorMap(f16, box=(64, 64))):
    output = k.tma_epilogue(c, 128, 1)  # breaks
    output = k.tma_epilogue(c, 64, 1)  # keeps
    acc = k.wgmma.accumulator(64)
    acc.fill(0.0)
    output.reserve((0, 0), 0).store(acc)
    output.finish()


@kernel("epilogue.parts")
def epilogue_of_three_parts_of_64_columns(k, c: nvb.TensorMap(f16, box=(64, 64))):
    k.tma_epilogue(c, 128, parts=3)  # breaks
    k.tma_epilogue(c, 128, parts=2)  # keeps


@kernel("epilogue.columns")
def epilogue_of_columns_that_are_no_whole_rows(
    k, wide: nvb.TensorMap(f16, box=(64, 64)), narrow: nvb.TensorMap(f16, box=(64, 16), swizzle=32)
):
    k.tma_epilogue(wide, 80)  # breaks
    k.tma_epilogue(narrow, 80)  # keeps


@kernel("epilogue.threads")
def epilogue_of_two_warpgroups_where_one_is(k, c: nvb.TensorMap(f16, box=(64, 64))):
    output = k.tma_epilogue(c, 64, 2)  # breaks
    output = k.tma_epilogue(c, 64, 1)  # keeps
    acc = k.wgmma.accumulator(64)
    acc.fill(0.0)
    output.reserve((0, 0), 0).store(acc)
    output.finish()


@kernel("accumulator.overlap")
def rows_on_one_another(k, out: nvb.Pointer[f32]):
    acc = k.wgmma.accumulator(64)
    acc.fill(0.0)
    stride = 32  # breaks
    stride = 64  # keeps
    k.store_accumulator(acc, out, stride)


@program("attach.block")
def function_that_does_not_end():
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), []), "own")
    builder = ir.IRBuilder(function.append_basic_block())
    k = nvb.attach(builder, "sm_90a", threads=32)
    k.barrier.sync()
    builder.ret_void()  # keeps
    k.verify()


@program("call.name")
def operand_that_the_row_lacks():
    row = nvb.wgmma.select(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32), nvb.Target.parse("sm_90a"))
    row.operand("e")  # breaks
    row.operand("d")  # keeps
