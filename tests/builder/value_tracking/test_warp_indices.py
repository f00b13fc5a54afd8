"""k.warp_id() and k.warpgroup_id() wherever a kernel asks for them, also where one lane does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend import f32, i32
from nvbackend.builder.core.memory import Address
from tests.support.devices import on_devices

Body = Callable[[nvb.KernelBuilder, Address, Address], None]


def in_lane_zero(k: nvb.KernelBuilder, x: Address, out: Address) -> None:
    with k.if_(k.lane_id() == 0):
        out[k.warp_id()] = x[0]


def in_the_other_lanes(k: nvb.KernelBuilder, x: Address, out: Address) -> None:
    with k.if_(k.lane_id() < 7):
        out[100] = x[0]
    with k.else_():
        out[k.warp_id()] = x[0]


def where_data_decide(k: nvb.KernelBuilder, x: Address, out: Address) -> None:
    with k.if_(x[k.thread_id()] > 0.0):
        out[k.warpgroup_id()] = x[0]


def in_one_thread(k: nvb.KernelBuilder, x: Address, out: Address) -> None:
    with k.one_thread(1):
        out[k.warp_id()] = x[0]


def in_the_first_thread(k: nvb.KernelBuilder, x: Address, out: Address) -> None:
    with k.if_(k.thread_id() == 0):
        out[k.warp_id() + k.warpgroup_id()] = x[0]


def in_a_loop_that_lanes_leave(k: nvb.KernelBuilder, x: Address, out: Address) -> None:
    with k.range(8) as i:
        k.break_if(x[i + k.thread_id()] > 0.0)
        out[i + k.warp_id()] = x[0]


def behind_lanes_that_are_done(k: nvb.KernelBuilder, x: Address, out: Address) -> None:
    k.return_if(x[k.thread_id()] > 0.0)
    out[k.warp_id()] = x[0]


PARTED = (
    in_lane_zero,
    in_the_other_lanes,
    where_data_decide,
    in_one_thread,
    in_the_first_thread,
    in_a_loop_that_lanes_leave,
    behind_lanes_that_are_done,
)


def finished(body: Body) -> nvb.KernelBuilder:
    k = nvb.KernelBuilder(
        "indices",
        "sm_90a",
        threads=128,
        parameters=[nvb.Parameter("x", nvb.Pointer(f32)), nvb.Parameter("out", nvb.Pointer(f32))],
    )
    body(k, *k.arguments)
    return k


@pytest.mark.parametrize("body", PARTED, ids=[body.__name__ for body in PARTED])
def test_some_lanes_may_ask(body: Body) -> None:
    kernel = finished(body).finish()
    assert kernel.diagnostics == ()
    shuffles = kernel.ir.count('call i32 @"llvm.nvvm.shfl')
    assert shuffles == (1 if body is in_one_thread else 0), "one_thread itself chooses the warp by one"
    assert [one.opcode for one in kernel.machine.instructions()].count("shfl.sync.idx") == shuffles
    assert kernel.compile().ptx.count("shfl.sync") == shuffles


def test_whole_warps_have_it_in_a_uniform_register() -> None:
    def whole(k: nvb.KernelBuilder, x: Address, out: Address) -> None:
        with k.if_(k.warp_id() < 3), k.range(4) as i:
            out[i + k.warp_id()] = x[0]

    assert finished(whole).finish().ir.count('call i32 @"llvm.nvvm.shfl') == 2


def test_an_attached_function_goes_on_after_it_was_verified() -> None:
    module = ir.Module("own")
    pointer = ir.PointerType(addrspace=1)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer]), "own")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    k = nvb.attach(builder, "sm_90a", threads=64)
    out = k.global_address(function.args[0], i32, 4)
    with k.if_(k.lane_id() == 0):
        out[k.warp_id()] = 1
        inside = builder.block
        k.warp_id()
    builder.ret_void()
    assert k.verify() == ()
    builder.position_before(inside.terminator)
    k.nanosleep(10)
    assert k.verify() == ()
    assert "shfl" not in str(function)


@on_devices
def test_a_block_sum_as_everybody_writes_it() -> None:
    from numba import cuda

    @nvb.kernel("sm_90a", threads=256)
    def block_sum(k: nvb.KernelBuilder, x: nvb.Pointer[f32], out: nvb.Pointer[f32]) -> None:  # type: ignore[valid-type]
        parts = k.shared(f32, 8)
        total = x[k.thread_id()]
        for distance in (16, 8, 4, 2, 1):
            total = total + k.warp.shuffle(total, "bfly", distance)
        with k.if_(k.lane_id() == 0):
            parts[k.warp_id()] = total
        k.barrier.sync()
        with k.if_(k.thread_id() == 0):
            whole = parts[0]
            for warp in range(1, 8):
                whole = whole + parts[warp]
            out[0] = whole

    x = np.arange(256, dtype=np.float32)
    out = cuda.to_device(np.zeros(1, np.float32))
    nvb.runtime.load(block_sum.compile()).launch(1, cuda.to_device(x), out)
    assert out.copy_to_host()[0] == x.sum()
