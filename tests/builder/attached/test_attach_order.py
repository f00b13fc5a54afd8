"""A builder attached to an IRBuilder whose owner goes back: the order of the calls is no longer that of the program."""

from __future__ import annotations

import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend import Major, SmemLayout, SwizzleMode, f16, f32


def multiplied():
    """One mma in flight and the wait behind it, in one block that ends."""
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), []), "attached")
    place = ir.IRBuilder(function.append_basic_block("entry"))
    k = nvb.attach(place, "sm_90a", threads=128)
    tile = k.shared_tile(SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 64))
    acc = k.wgmma.accumulator(64)
    with k.wgmma.group(in_flight=1):
        k.wgmma.mma_async(acc, tile, tile, nvb.wgmma.mma_async("m64n64k16", f16, f16, f32))
    k.wgmma.wait_group(0)
    place.ret_void()
    return k, acc, place


def test_a_read_slipped_in_front_of_the_wait_is_found():
    _, acc, place = multiplied()
    wait = next(one for one in place.block.instructions if "wgmma.wait_group" in str(one))
    place.position_before(wait)
    with pytest.raises(nvb.DiagnosticError) as caught:
        acc.values()
    (found,) = caught.value.diagnostics
    assert found.rule_id == "attach.order"
    assert found.location is not None and found.location.file == __file__


def test_in_front_of_the_end_of_a_block_is_behind_everything():
    k, acc, place = multiplied()
    place.position_before(place.block.terminator)
    assert len(acc.values()) == acc.registers
    k.wgmma.fence()
    assert k.verify() == ()


def test_another_block_has_an_order_of_its_own():
    k, acc, place = multiplied()
    earlier = place.function.append_basic_block("earlier")
    place.position_at_end(earlier)
    k.wgmma.fence()
    place.ret_void()
    place.position_before(place.function.entry_basic_block.terminator)
    acc.values()
    assert k.verify() == ()


def test_more_code_after_a_shuffle_that_verify_replaced():
    """A warp's index that part of a warp asks for becomes another instruction; what was emitted keeps its place."""
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), []), "attached")
    place = ir.IRBuilder(function.append_basic_block("entry"))
    k = nvb.attach(place, "sm_90a", threads=128)
    part, rest = (function.append_basic_block(name) for name in ("part", "rest"))
    place.cbranch((k.thread_id() < 3).ir, part, rest)
    place.position_at_end(rest)
    place.ret_void()
    place.position_at_end(part)
    k.warp_id()
    place.branch(rest)
    assert "shfl" in str(function)
    k.verify()
    assert "shfl" not in str(function)
    place.position_before(part.terminator)
    k.fence.proxy_async()
    k.verify()
