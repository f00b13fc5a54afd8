"""`verify(partial=True)`: inside a lowering, what is certain whatever comes."""

from __future__ import annotations

import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend import DiagnosticError, f16, f32
from tests.builder.attached.test_attach_judged import BODIES, attached, said

INSTRUCTION = nvb.wgmma.mma_async("m64n64k16", f16, f16, f32)
I32 = ir.IntType(32)


def so_far(k) -> list[str]:
    try:
        return [one.rule_id for one in k.verify(partial=True)]
    except DiagnosticError as error:
        return [one.rule_id for one in error.diagnostics]


def operands(k):
    return k.shared_tile(nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64)), k.wgmma.accumulator(64)


def test_what_may_still_come_is_no_mistake():
    """The mma is neither committed nor waited for yet, and no block ends."""
    k, builder, out, _ = attached()
    tile, acc = operands(k)
    assert so_far(k) == []
    k.wgmma.fence()
    k.wgmma.mma_async(acc, tile, tile, INSTRUCTION)
    assert so_far(k) == []
    k.wgmma.commit_group()
    assert so_far(k) == []
    k.wgmma.wait_group(0)
    out[k.thread_id()] = acc[0]
    assert so_far(k) == []
    builder.ret_void()
    assert so_far(k) == []
    assert said(k) == []


def test_what_is_wrong_is_told_at_once():
    k, _, out, _ = attached()
    tile, acc = operands(k)
    k.wgmma.fence()
    k.wgmma.mma_async(acc, tile, tile, INSTRUCTION)
    k.wgmma.commit_group()
    out[k.thread_id()] = acc[0]
    assert so_far(k) == ["wgmma.read-in-flight"]


def test_in_an_open_with_block():
    k, builder, out, n = attached()
    tile, acc = operands(k)
    with k.range(n), k.if_(k.thread_id() < 64):
        k.barrier.sync(1, 64)
        assert so_far(k) == []
    with k.wgmma.group():
        k.wgmma.mma_async(acc, tile, tile, INSTRUCTION)
        assert so_far(k) == []
    out[k.thread_id()] = acc[0]
    builder.ret_void()
    assert said(k) == []


def test_a_loop_that_is_not_closed_yet():
    """The read is of the round before, which waits at its end; on the first it is skipped."""
    k, builder, out, n = attached()
    tile, acc = operands(k)
    with k.range(n) as i:
        with k.if_(i > 0):
            out[k.thread_id()] = acc[0]
            assert so_far(k) == []
        k.wgmma.fence()
        k.wgmma.mma_async(acc, tile, tile, INSTRUCTION)
        k.wgmma.commit_group()
        assert so_far(k) == []
        k.wgmma.wait_group(0)
    builder.ret_void()
    so_far(k)


def test_blocks_of_the_owner_may_get_more_branches():
    k, builder, out, _ = attached()
    tile, acc = operands(k)
    block = builder.append_basic_block("own")
    k.wgmma.fence()
    k.wgmma.mma_async(acc, tile, tile, INSTRUCTION)
    k.wgmma.commit_group()
    builder.branch(block)
    builder.position_at_end(block)
    out[k.thread_id()] = acc[0]
    assert so_far(k) == []
    builder.ret_void()
    assert said(k) == ["wgmma.read-in-flight"]


def test_each_instruction_is_checked_wherever_it_is():
    """The target lacks what the owner emits in a block of its own, in a loop."""
    k, builder, _, _ = attached()
    again = builder.append_basic_block("again")
    builder.branch(again)
    builder.position_at_end(again)
    builder.asm(ir.FunctionType(ir.VoidType(), []), "tcgen05.wait::ld.sync.aligned;", "", [], side_effect=True)
    assert so_far(k) != []


def test_code_after_the_end_of_a_block():
    k, builder, _, _ = attached()
    builder.ret_void()
    builder.alloca(I32)
    assert so_far(k) == ["attach.block"]


@pytest.mark.parametrize("body", BODIES, ids=lambda one: one.__name__)
def test_it_changes_nothing(body):
    """Asked after each call and at the end, the whole function is judged as without."""
    plain, asked = (attached() for _ in range(2))
    for each in (plain, asked):
        k, builder, out, n = each
        if each is asked:
            record = k.core.record

            def recorded(*instruction, k=k, record=record):
                record(*instruction)
                so_far(k)

            k.core.record = recorded
        body(k, out, n)
        builder.ret_void()
    so_far(asked[0])
    assert str(asked[0].function) == str(plain[0].function)
    assert said(asked[0]) == said(plain[0])


def test_after_an_exception_in_a_with_block():
    k, _, _, n = attached()
    with pytest.raises(KeyError), k.if_(n > 0):
        raise KeyError
    assert so_far(k) == ["control.torn"]


def test_it_is_said_of_a_module_too():
    """A caller's shared memory does not become another one later."""
    k, builder, _, _ = attached()
    k.shared(f32, 32)[k.thread_id() % 32] = 1.0
    callee = ir.Function(builder.module, ir.FunctionType(ir.VoidType(), []), "callee")
    inner = nvb.attach(ir.IRBuilder(callee.append_basic_block()), "sm_90a", threads=128)
    inner.shared(f32, 32)[inner.thread_id() % 32] = 1.0
    builder.call(callee, [])
    assert so_far(k) == ["attach.shared"]
    assert so_far(inner) == ["attach.shared"]
