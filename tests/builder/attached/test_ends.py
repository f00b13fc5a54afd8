"""How the owner's blocks end: what follows them is judged, by whichever instruction of LLVM they end."""

from __future__ import annotations

import re

import pytest
from llvmlite import ir

from nvbackend import i32
from nvbackend.builder.attached.selectable import may_be_refused
from nvbackend.builder.value_tracking.addresses.origins import reaching
from nvbackend.dry_run.successors import successors_of
from tests.builder.attached.test_attach_judged import attached, race, said
from tests.builder.attached.test_partial import INSTRUCTION, operands, so_far

I32 = ir.IntType(32)


def one_way(builder, number, ways):
    builder.branch(ways[0])


def two_ways(builder, number, ways):
    builder.cbranch(builder.icmp_signed(">", number, ir.Constant(I32, 3)), ways[0], ways[-1])


def by_switch(builder, number, ways):
    end = builder.switch(number, ways[-1])
    for case, way in enumerate([*ways, ways[0]]):
        end.add_case(ir.Constant(I32, case), way)


def one_case(builder, number, ways):
    builder.switch(number, ways[-1]).add_case(ir.Constant(I32, 7), ways[0])


def indirect(builder, number, ways):
    addresses = [ir.BlockAddress(builder.function, way) for way in (ways[0], ways[-1])]
    test = builder.icmp_signed(">", number, ir.Constant(I32, 3))
    end = builder.branch_indirect(builder.select(test, *addresses))
    for way in ways:
        end.add_destination(way)


ENDS = [one_way, two_ways, by_switch, one_case, indirect]


@pytest.mark.parametrize("end", ENDS)
def test_targets_are_those_of_the_text(end):
    """What LLVM prints of the end, each label once."""
    _k, builder, _, n = attached()
    ways = [builder.append_basic_block(name) for name in ("first", "second", "third")]
    end(builder, n.ir, ways)
    printed = re.findall(r'label %"(\w+)"', str(builder.block.terminator))
    assert {target.name for target in successors_of(builder.block.terminator)} == set(printed)
    assert len(successors_of(builder.block.terminator)) == len(set(printed))
    assert successors_of(None) == []


def in_flight(end, *, wait=False):
    """An accumulator is read in a block that follows the owner's end, by which nothing was waited for."""
    k, builder, out, n = attached()
    tile, acc = operands(k)
    k.wgmma.fence()
    k.wgmma.mma_async(acc, tile, tile, INSTRUCTION)
    k.wgmma.commit_group()
    ways = [builder.append_basic_block(name) for name in ("first", "second")]
    end(builder, n.ir, ways)
    for way in ways:
        builder.position_at_end(way)
        if wait or way is ways[1]:
            k.wgmma.wait_group(0)
        out[k.thread_id()] = acc[0]
        builder.ret_void()
    return k


@pytest.mark.parametrize("end", ENDS)
def test_what_follows_is_judged(end):
    assert said(in_flight(end)) == ["wgmma.read-in-flight"]
    assert said(in_flight(end, wait=True)) == []


@pytest.mark.parametrize("end", ENDS)
def test_what_follows_is_judged_before_all_is_there(end):
    k, builder, _out, n = attached()
    tile, acc = operands(k)
    k.wgmma.fence()
    k.wgmma.mma_async(acc, tile, tile, INSTRUCTION)
    ways = [builder.append_basic_block(name) for name in ("first", "second")]
    end(builder, n.ir, ways)
    assert so_far(k) == []


@pytest.mark.parametrize("end", ENDS[1:])
def test_no_end_that_branches_hides_what_comes_before(end):
    """It orders no threads and accesses nothing."""
    k, builder, out, n = attached()
    race(k, out, n)
    ways = [builder.append_basic_block(name) for name in ("first", "second")]
    end(builder, n.ir, ways)
    for way in ways:
        builder.position_at_end(way)
        builder.ret_void()
    assert said(k) == ["shared.missing-barrier"]


@pytest.mark.parametrize("end", ENDS[1:])
def test_blocks_of_ours_to_which_the_owner_leads(end):
    """Only some threads may come to the second loop's block that the owner's end leads back to."""
    k, builder, _, n = attached()
    full = k.mbarrier.array(1, 1)
    k.mbarrier.ready()
    with k.if_(k.thread_id() == 0):
        k.mbarrier.arrive(full)
    again, done = builder.block, builder.append_basic_block("done")
    k.mbarrier.wait(full, 0)
    end(builder, (k.thread_id() + n).ir, [again, done])
    builder.position_at_end(done)
    builder.ret_void()
    assert said(k) == []


@pytest.mark.parametrize("end", ENDS[1:])
def test_what_a_variable_may_hold_after_it(end):
    k, builder, _out, n = attached()
    chosen = k.var(1, i32)
    ways = [builder.append_basic_block(name) for name in ("first", "second")]
    done = builder.append_basic_block("done")
    end(builder, n.ir, ways)
    for number, way in enumerate(ways):
        builder.position_at_end(way)
        if number:
            chosen.set(number + 1)
        builder.branch(done)
    builder.position_at_end(done)
    read = chosen.value.ir
    builder.ret_void()
    assert {value.constant for value in reaching(read)} == {1, 2}


def test_llvm_has_no_code_for_an_indirect_branch():
    """It ends its process there, so that must be another one."""
    assert may_be_refused(in_flight(indirect).function.module)
    assert not may_be_refused(in_flight(by_switch).function.module)
