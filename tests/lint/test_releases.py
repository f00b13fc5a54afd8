"""`nvbackend.lint`: arrivals that let a stage of a ring be filled again while a wgmma reads it, for several tiles."""

from __future__ import annotations

import pytest

from nvbackend.codegen.cache import Cache
from nvbackend.lint import lint
from samples import convolution, grouped_gemm
from tests.support.ptxas import assemble

STAGES = 4
RING = """.version 8.0
.target sm_90a
.address_size 64
.entry ring(.param .u64 .ptr .global .align 64 p, .param .u32 n, .param .u32 tiles) .maxntid 160 {
.reg .pred %p<9>; .reg .b32 %r<30>; .reg .b64 %rd<9>; .reg .f32 %f<4>;
.shared .align 1024 .b8 tile[8192]; .shared .align 8 .b8 full[32]; .shared .align 8 .b8 free[32];
ld.param.u64 %rd1, [p]; ld.param.u32 %r0, [n]; ld.param.u32 %r20, [tiles]; mov.u32 %r1, %tid.x;
setp.eq.u32 %p0, %r1, 128; mov.u32 %r2, full; mov.u32 %r3, free; mov.u32 %r10, tile;
setp.ne.u32 %p8, %r1, 0; @%p8 bra begun; INITS begun: bar.sync 0;
mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
mov.u32 %r4, 0; setp.gt.u32 %p7, %r1, 127; @%p7 bra make;
mov.u32 %r5, 0;
next: mov.u32 %r6, 0;
take: shl.b32 %r7, %r4, 3; add.u32 %r9, %r2, %r7;
w0: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r9], %r5; @!%p3 bra w0;
shl.b32 %r11, %r4, 11; add.u32 %r11, %r11, %r10; shr.u32 %r11, %r11, 4; cvt.u64.u32 %rd2, %r11;
or.b64 %rd3, %rd2, 4611686293305360384;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd3, %rd3, 1, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;
WAIT
setp.lt.u32 %p4, %r6, LAG; add.u32 %r12, %r4, BACK; and.b32 %r12, %r12, 3; shl.b32 %r12, %r12, 3;
add.u32 %r12, %r12, %r3; setp.ne.u32 %p5, %r1, 0; or.pred %p6, %p4, %p5; ARRIVE
add.u32 %r4, %r4, 1; setp.eq.u32 %p5, %r4, 4; selp.u32 %r13, 1, 0, %p5; xor.b32 %r5, %r5, %r13;
selp.u32 %r4, 0, %r4, %p5; add.u32 %r6, %r6, 1; setp.ne.u32 %p5, %r6, %r0; @%p5 bra take;
wgmma.wait_group.sync.aligned 0;
st.global.f32 [%rd1], %f0; LAST add.s32 %r20, %r20, -1; setp.ne.u32 %p5, %r20, 0; @%p5 bra next; bra done;
make: @!%p0 bra done; mov.u32 %r5, 1; mul.lo.s32 %r6, %r0, %r20;
fill: shl.b32 %r7, %r4, 3; add.u32 %r9, %r3, %r7;
w1: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r9], %r5; @!%p3 bra w1;
add.u32 %r9, %r2, %r7; shl.b32 %r11, %r4, 11; add.u32 %r11, %r11, %r10;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r9], 2048;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r11], [%rd1], 2048, [%r9];
add.u32 %r4, %r4, 1; setp.eq.u32 %p5, %r4, 4; selp.u32 %r13, 1, 0, %p5; xor.b32 %r5, %r5, %r13;
selp.u32 %r4, 0, %r4, %p5; add.s32 %r6, %r6, -1; setp.ne.u32 %p5, %r6, 0; @%p5 bra fill;
done: ret; }"""
"""A ring of four stages for several tiles: a stage is free `LAG` rounds after the wgmma that reads it."""
ARRIVE = "@%p6 bra on; mbarrier.arrive.shared::cta.b64 _, [%r12]; on:"
INITS = " ".join(
    f"mbarrier.init.shared::cta.b64 [{name}+{8 * stage}], 1;" for name in ("full", "free") for stage in range(STAGES)
)


def ring(lag: int, wait: str) -> str:
    """The kernel; the rounds of a tile that are not past `LAG` free their stages at its end."""
    last = " ".join(
        f"add.u32 %r12, %r4, {STAGES - back}; and.b32 %r12, %r12, 3; shl.b32 %r12, %r12, 3; add.u32 %r12, %r12, %r3; "
        f"setp.ne.u32 %p6, %r1, 0; {ARRIVE.replace('on', f'on{back}')}"
        for back in range(1, lag + 1)
    )
    text = RING.replace("LAG", str(lag)).replace("BACK", str(STAGES - lag)).replace("ARRIVE", ARRIVE)
    return text.replace("LAST", last).replace("WAIT", wait).replace("INITS", INITS)


@pytest.mark.parametrize("lag", [0, 1, 2])
@pytest.mark.parametrize("pending", [0, 1, 2, 3, None])
def test_a_stage_is_freed_after_the_wait_for_what_reads_it(lag: int, pending: int | None) -> None:
    """A wait that leaves so many groups in flight is enough for a stage that was read as many rounds ago."""
    text = ring(lag, "" if pending is None else f"wgmma.wait_group.sync.aligned {pending};")
    is_wrong = pending is None or pending > lag
    found = lint(text)
    assert [each.rule_id for each in found] == ["lint.stage-in-flight"] * is_wrong
    assert assemble(text, "sm_90a")[0]
    if is_wrong and pending is not None:
        assert f"put wgmma.wait_group.sync.aligned {lag} before it" in (found[0].fix or "")


@pytest.mark.parametrize("sample", [convolution.convolution, grouped_gemm.gemm], ids=["convolution", "grouped"])
def test_the_wait_of_a_loop_of_tiles_is_missed(sample: object) -> None:
    text = sample.compile(cache=Cache.disabled(), assemble=False).ptx  # type: ignore[attr-defined]
    wait = "wgmma.wait_group.sync.aligned 1;"
    assert text.count(wait) == 1
    assert lint(text) == []
    for wrong in ("", "wgmma.wait_group.sync.aligned 2;"):
        assert [each.rule_id for each in lint(text.replace(wait, wrong))] == ["lint.stage-in-flight"]
