"""A kernel of an owner's module, attached to and launched: branches and blocks of the owner, in both lowerings."""

from __future__ import annotations

import numpy as np
import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend import f32, i32
from tests.support.devices import ON_DEVICES

pytestmark = ON_DEVICES
THREADS, CTAS = 128, 3
I32, F32 = ir.IntType(32), ir.FloatType()


def owners_kernel(lowering: str):
    """The sum over each CTA of x, by a bulk copy, an mbarrier and shuffles; elements past `n` count for nothing.

    The owner's own code is a branch around the bounds with a phi, and an addition of LLVM's.
    """
    module = ir.Module("owner")
    pointer = ir.PointerType(addrspace=1)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer, I32, pointer]), "sums")
    function.calling_convention = "ptx_kernel"
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    parameters = [
        nvb.Parameter("x", nvb.Pointer(f32, align=16)),
        nvb.Parameter("n", nvb.Scalar(i32)),
        nvb.Parameter("sums", nvb.Pointer(f32, align=4)),
    ]
    k = nvb.attach(builder, "sm_90a", threads=THREADS, parameters=parameters, lowering=lowering)
    x, n, sums = k.arguments
    tile, full = k.shared(f32, THREADS, align=128), k.mbarrier.array(1, arrivals=1)
    parts = k.shared(f32, THREADS // 32)
    k.mbarrier.ready()
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=4 * THREADS)
        k.bulk.load(tile, x + k.block_id() * THREADS, 4 * THREADS, full)
    k.mbarrier.wait(full, 0)
    value = _guarded(k, builder, tile[k.thread_id()].ir, k.block_id() * THREADS + k.thread_id() < n)
    for distance in (16, 8, 4, 2, 1):
        other = k.warp.shuffle(value, "bfly", distance)
        value = k.value(builder.fadd(value.ir, other.ir), f32)
    with k.if_(k.lane_id() == 0):
        parts[k.warp_id()] = value
    k.barrier.sync()
    with k.if_(k.thread_id() == 0):
        sums[k.block_id()] = parts[0] + parts[1] + parts[2] + parts[3]
    builder.ret_void()
    k.verify()
    return k.finish()


def _guarded(k, builder, element, is_inside):
    inside, done = (builder.append_basic_block(name) for name in ("inside", "done"))
    before = builder.block
    builder.cbranch(is_inside.ir, inside, done)
    builder.position_at_end(inside)
    square = builder.fmul(element, element)
    builder.branch(done)
    builder.position_at_end(done)
    phi = builder.phi(F32)
    phi.add_incoming(ir.Constant(F32, 0.0), before)
    phi.add_incoming(square, inside)
    return k.value(phi, f32)


@pytest.mark.parametrize("lowering", ["intrinsic", "asm"])
def test_a_kernel_of_an_owner_gives_numpys_numbers(lowering: str) -> None:
    from numba import cuda

    finished = owners_kernel(lowering)
    assert ("llvm.nvvm.shfl" in finished.ir) is (lowering == "intrinsic")
    x = np.random.default_rng(8).integers(-9, 9, CTAS * THREADS).astype(np.float32)
    n = CTAS * THREADS - 50
    given, sums = cuda.to_device(x), cuda.to_device(np.zeros(CTAS, np.float32))
    nvb.runtime.load(finished.compile()).launch(CTAS, given, n, sums)
    counted = np.where(np.arange(x.size) < n, x * x, 0).reshape(CTAS, THREADS)
    assert sums.copy_to_host().tolist() == counted.sum(axis=1).tolist()
