"""Registers of a wgmma that are written before it is done."""

from __future__ import annotations

import numpy as np
import pytest

from nvbackend import DiagnosticError
from nvbackend.simulator import Simulator

TEXT = """.version 8.3
.target sm_90a
.address_size 64
.entry k(.param .u64 out)
{{
    .reg .b32 %r<16>; .reg .f32 %f<8>; .reg .b64 %rd<8>; .reg .pred %p<2>;
    .shared .align 1024 .b8 image[512];
    mov.u32 %r0, %tid.x; mov.u32 %r1, image; mov.b32 %r2, 0x3c003c00;
    mad.lo.u32 %r3, %r0, 4, %r1; setp.lt.u32 %p0, %r0, 64; @%p0 st.shared.b32 [%r3], %r2;
    fence.proxy.async.shared::cta; bar.sync 0;
    cvt.u64.u32 %rd1, %r1; shr.u64 %rd1, %rd1, 4; or.b64 %rd1, %rd1, {offsets};
    mov.b32 %r4, %r2; mov.b32 %r5, %r2; mov.b32 %r6, %r2; mov.b32 %r7, %r2;
    mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
    setp.eq.u32 %p1, %r1, %r1;
    wgmma.fence.sync.aligned;
    {mma}
    {between}
    {mma}
    wgmma.commit_group.sync.aligned;
    {early}
    wgmma.wait_group.sync.aligned 0;
    {late}
    ld.param.u64 %rd2, [out]; mul.wide.u32 %rd3, %r0, 4; add.u64 %rd2, %rd2, %rd3; st.global.f32 [%rd2], %f0;
    ret;
}}
"""
MMA = (
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, {%r4, %r5, %r6, %r7}, %rd1, %p1, 1, 1, 0;"
)


def run(**places):
    out = np.zeros(128, np.float32)
    parts = {"between": "", "early": "", "late": "", **places}
    text = TEXT.format(mma=MMA, offsets=(128 >> 4) << 16 | (128 >> 4) << 32, **parts)
    Simulator().load(text).launch("k", block=(128, 1, 1), args=[out])
    return out


@pytest.mark.parametrize("statement", ["mov.b32 %r5, 7;", "mov.f32 %f1, 0f3f800000;"], ids=["A", "D"])
@pytest.mark.parametrize("place", ["between", "early"])
def test_a_write_before_the_wait(place, statement):
    with pytest.raises(DiagnosticError) as caught:
        run(**{place: statement})
    assert {one.rule.id for one in caught.value.diagnostics} == {"wgmma.write-in-flight"}


@pytest.mark.parametrize("statement", ["mov.b32 %r5, 7;", "mov.f32 %f1, 0f3f800000;"], ids=["A", "D"])
def test_a_write_after_the_wait(statement):
    assert (run(late=statement) == 32).all()


@pytest.mark.parametrize("place", ["between", "early"])
@pytest.mark.parametrize("statement", ["add.f32 %f4, %f1, %f1;", "st.shared.f32 [%r1], %f3;"])
def test_a_read_of_the_accumulator_before_the_wait(place, statement):
    for late, expected in ((False, {"wgmma.read-in-flight"}), (True, set())):
        found = set()
        try:
            run(**{"late" if late else place: statement})
        except DiagnosticError as error:
            found = {one.rule.id for one in error.diagnostics}
        assert found == expected


COPY = "mov.b32 %r8, %f1; mov.f32 %f4, %r8;"


def test_a_copy_of_the_accumulator_before_the_wait_is_its_result():
    assert (run(early=COPY, late="mov.f32 %f0, %f4;") == 32).all()
    assert (run(early=f"{COPY} mov.f32 %f4, 0f3f800000; add.f32 %f5, %f4, %f4;", late="mov.f32 %f0, %f5;") == 2).all()


@pytest.mark.parametrize("statement", ["add.f32 %f5, %f4, %f4;", "add.u32 %r9, %r8, 1;", "st.shared.f32 [%r3], %f4;"])
def test_a_use_of_a_copy_before_the_wait(statement):
    with pytest.raises(DiagnosticError) as caught:
        run(early=COPY + statement)
    assert {one.rule.id for one in caught.value.diagnostics} == {"wgmma.read-in-flight"}


def test_a_read_of_the_fragment_of_a_is_no_mistake():
    assert (run(early="add.u32 %r8, %r5, %r6;") == 32).all()


def test_writing_what_is_there_already_changes_nothing():
    assert (run(early="mov.b32 %r5, %r2;") == 32).all()
