"""Member masks of a warp's instructions that name other lanes than come, or than are read."""

from __future__ import annotations

import numpy as np
import pytest

from nvbackend.simulator import Simulator
from tests.support.runtime import broken

HEAD = ".version 8.6\n.target sm_100a\n.address_size 64\n"
LANES = np.arange(32)


def run(instruction, masks, sources=LANES, count=32):
    """Each of `count` threads executes it with its own mask in %r1 and source lane in %r2; what %r3 is then."""
    body = f"""
        .reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .pred %p<3>;
        mov.u32 %r0, %tid.x; mul.wide.u32 %rd1, %r0, 4;
        ld.param.u64 %rd0, [masks]; add.u64 %rd2, %rd0, %rd1; ld.global.u32 %r1, [%rd2];
        ld.param.u64 %rd0, [sources]; add.u64 %rd2, %rd0, %rd1; ld.global.u32 %r2, [%rd2];
        ld.param.u64 %rd0, [out]; add.u64 %rd3, %rd0, %rd1;
        setp.eq.u32 %p0, %r0, %r0;
        setp.ge.u32 %p1, %r0, {count};
        @%p1 ret;
        mov.u32 %r3, 0;
        {instruction}
        st.global.u32 [%rd3], %r3;
        ret;"""
    parameters = ".param .u64 masks, .param .u64 sources, .param .u64 out"
    out = np.zeros(32, np.uint32)
    given = [np.broadcast_to(one, 32).astype(np.uint32) for one in (masks, sources)]
    Simulator().load(f"{HEAD}.entry k({parameters}) {{ {body} }}").launch("k", block=(32,), args=[*given, out])
    return out


def said(*given, **options):
    (found,) = broken(lambda: run(*given, **options))
    assert found.rule_id == "warp.members"
    return found.message.partition(": ")[2]


SHFL = "shfl.sync.idx.b32 %r3, %r0, %r2, 31, %r1;"
ALL = {
    "shfl": SHFL,
    "constant shfl": "shfl.sync.bfly.b32 %r3, %r0, 1, 31, %r1;",
    "vote": "vote.sync.ballot.b32 %r3, %p0, %r1;",
    "match": "match.any.sync.b32 %r3, %r0, %r1;",
    "redux": "redux.sync.add.u32 %r3, %r0, %r1;",
    "elect": "elect.sync %r3|%p2, %r1;",
    "barrier": "bar.warp.sync %r1;",
}


@pytest.mark.parametrize("instruction", ALL.values(), ids=ALL)
def test_a_lane_that_is_not_in_its_mask(instruction):
    run(instruction, 0xFFFFFFFF)
    run(instruction, 0xFFFF, count=16)
    assert said(instruction, 0xFFFF) == "lane 16 executes it, and is not among the members 0xffff"


@pytest.mark.parametrize("instruction", ALL.values(), ids=ALL)
def test_lanes_that_name_each_other_with_other_masks(instruction):
    run(instruction, np.where(LANES < 16, 0xFFFF, 0xFFFF0000))
    text = said(instruction, np.where(LANES < 16, 0xFFFFFFFF, 0xFFFF0000))
    assert text == "lane 16 names the members 0xffff0000, and is among the members 0xffffffff"


@pytest.mark.parametrize("instruction", ALL.values(), ids=ALL)
def test_the_first_lane_that_names_one_with_another_mask(instruction):
    masks = np.select([LANES < 16, LANES < 24], [0xFFFF, 0xFFFF0000], 0xFF000000)
    text = said(instruction, masks)
    assert text == "lane 24 names the members 0xff000000, and is among the members 0xffff0000"


@pytest.mark.parametrize("instruction", ALL.values(), ids=ALL)
def test_lanes_that_have_ended_name_no_members(instruction):
    run(instruction, 0x1FFFF, count=16)
    assert "lane 16 executes it" in said(instruction, 0xFFFF, count=17)


def test_masks_that_are_constants():
    instruction = "shfl.sync.bfly.b32 %r3, %r0, 1, 31, 0xFF;"
    assert run(instruction, 0, count=8)[:8].tolist() == [1, 0, 3, 2, 5, 4, 7, 6]
    assert said(instruction, 0) == "lane 8 executes it, and is not among the members 0xff"


def test_all_members_read_a_lane_that_is_none():
    assert said(SHFL, 0xFFFF, 20, count=16) == "lane 20 is read from, and is not among the members 0xffff"
    halves = np.where(LANES < 16, 0xFFFF, 0xFFFF0000)
    assert (
        said(SHFL, halves, np.where(LANES < 16, 3, 3)) == "lane 3 is read from, and is not among the members 0xffff0000"
    )


def test_the_last_members_may_read_beyond_their_row():
    """Whose results no sum of the first lane has."""
    found = run("shfl.sync.down.b32 %r3, %r0, 4, 31, %r1;", 0xFFFF, count=16)
    assert found[:12].tolist() == list(range(4, 16))


@pytest.mark.parametrize(
    ("mask", "count"), [(0xFFFFF, 20), (0xFFFFFFFF, 20)], ids=["lanes outside of the mask", "lanes that have ended"]
)
def test_what_is_read_from_a_lane_that_takes_no_part_shows(mask, count):
    """PTX ISA 9.7.9.6: it is undefined. Lanes whose partner takes part read its number."""
    found = run("shfl.sync.bfly.b32 %r3, %r0, 16, 31, %r1;", mask, count=count)[:count]
    partner = np.arange(count) ^ 16
    assert (found[partner < count] == partner[partner < count]).all()
    undefined = found[partner >= count]
    assert (undefined > 1 << 30).all() and (undefined.view(np.float32) > 1e30).all()
