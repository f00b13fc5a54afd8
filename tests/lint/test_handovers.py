"""Whose waits count: a thread that waits at an mbarrier knows what those have waited for that arrived there before."""

from __future__ import annotations

import pytest

from nvbackend.lint import lint
from tests.support.ptxas import assemble

HEAD = """.version 8.6
.target sm_90a
.address_size 64
.entry k(.param .u64 .ptr .global .align 64 p, .param .u32 n) .maxntid 128 {
.reg .pred %p<4>; .reg .b32 %r<40>; .reg .b64 %rd<4>; .reg .f32 %f<4>;
.shared .align 1024 .b8 tile[4096]; .shared .align 8 .b8 bar[16];
ld.param.u64 %rd1, [p]; ld.param.u32 %r3, [n]; mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; mov.f32 %f0, 0f00000000;
mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
@%p1 bra begin; mbarrier.init.shared::cta.b64 [bar], 1; mbarrier.init.shared::cta.b64 [bar+8], 128; begin: bar.sync 0;
mov.u32 %r2, tile; shr.u32 %r2, %r2, 4; and.b32 %r2, %r2, 16383; cvt.u64.u32 %rd2, %r2;
or.b64 %rd2, %rd2, 4611686293305360384;
"""
MMA = (
    "wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd2, %rd2, 1, "
    "1, 1, 0, 0; wgmma.commit_group.sync.aligned;\n"
)
WAIT = "wgmma.wait_group.sync.aligned 0;\n"
ALONE = "@%p1 bra on; mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 2048; on:\n"
"""One thread arrives, which has waited for no more than the others."""
ALL = "mbarrier.arrive.shared::cta.b64 _, [bar+8];\n"
ASK = "w{n}: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar{at}], 0; @!%p2 bra w{n};\n"
FILL = (
    "@%p1 bra filled; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1], 2048, [bar]; "
    "filled:\n"
)
END = f"{WAIT} st.global.f32 [%rd1], %f0; ret; }}"
ASK_FULL, ASK_FREE = ASK.format(n=0, at=""), ASK.format(n=1, at="+8")


@pytest.mark.parametrize(
    ("between", "is_wrong"),
    [
        (ALONE + ASK_FULL, True),
        (ALONE + ASK_FULL + "bar.sync 0;", True),
        (WAIT + ALONE + ASK_FULL, False),
        (WAIT + ALL + ASK_FREE, False),
        ("setp.gt.u32 %p3, %r1, 31; @!%p3 bra all;" + WAIT + "all:" + ALL + ASK_FREE, False),
    ],
    ids=["one-thread", "and-a-barrier", "waited", "all-waited", "some-waited"],
)
def test_a_wait_counts_where_threads_arrive_after_it(between: str, is_wrong: bool) -> None:
    text = HEAD + MMA + between + FILL + END
    assert assemble(text, "sm_90a")[0]
    assert [each.rule_id for each in lint(text)] == ["lint.written-in-flight"] * is_wrong


@pytest.mark.parametrize(
    ("barrier", "is_wrong"), [("bar.sync 0;", True), ("", False), ("bar.sync 0, 128;", False)], ids=str
)
def test_an_arrival_past_a_barrier_comes_after_the_copy(barrier: str, is_wrong: bool) -> None:
    """Who arrives after the wait is past a barrier at which the thread that copies has not been yet."""
    text = HEAD + MMA + ALONE + ASK_FULL + barrier + FILL + WAIT + ALL + ASK_FREE + END
    assert assemble(text, "sm_90a")[0]
    assert [each.rule_id for each in lint(text)] == ["lint.written-in-flight"] * is_wrong


@pytest.mark.parametrize(
    ("arrive", "is_wrong"), [("cp.async.mbarrier.arrive.noinc.shared.b64 [bar];", False), ("", True)]
)
def test_copies_whose_end_makes_an_arrival_are_complete_after_it(arrive: str, is_wrong: bool) -> None:
    copy = "cp.async.ca.shared.global [tile], [%rd1], 4; cp.async.commit_group;"
    read = "ld.shared.u32 %r4, [tile]; st.global.u32 [%rd1], %r4; cp.async.wait_group 0; ret; }"
    text = f"{HEAD}{copy} {arrive} @%p1 bra on; mbarrier.arrive.shared::cta.b64 _, [bar]; on: {ASK_FULL} {read}"
    assert assemble(text, "sm_90a")[0]
    assert [each.rule_id for each in lint(text)] == ["lint.copy-in-flight"] * is_wrong
