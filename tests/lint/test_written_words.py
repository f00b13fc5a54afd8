"""`nvbackend.lint`: a fence of the proxies that is missing where each thread computes where it writes."""

from __future__ import annotations

import pytest

from nvbackend.codegen.cache import Cache
from nvbackend.lint import lint
from samples import convolution, dynamic_gemm
from tests.support.ptxas import assemble

HEAD = """.version 8.0
.target sm_90a
.address_size 64
.entry k(.param .u64 .ptr .global .align 64 p, .param .align 64 .b8 map[128]) .maxntid 256 {
.reg .pred %p<9>; .reg .b32 %r<30>; .reg .b64 %rd<9>; .shared .align 1024 .b8 tile[8192];
ld.param.u64 %rd1, [p]; mov.b64 %rd2, map; cvta.param.u64 %rd3, %rd2; mov.u32 %r1, tile; mov.u32 %r2, %tid.x;
shr.u32 %r3, %r2, 7; shfl.sync.idx.b32 %r4, %r3, 0, 31, -1; shl.b32 %r5, %r4, 12; add.u32 %r6, %r1, %r5;
and.b32 %r7, %r2, 127; shl.b32 %r8, %r7, 4; shr.u32 %r9, %r8, 3; and.b32 %r9, %r9, 112;
setp.ne.u32 %p1, %r7, 0; mov.u32 %r11, 0;
"""
SWIZZLE, PLAIN = "xor.b32 %r10, %r8, %r9; add.u32 %r10, %r10, %r6;", "add.u32 %r10, %r8, %r6;"
WRITE = "st.shared.v4.b32 [%r10], {%r1, %r1, %r1, %r1};"
FENCE, SYNC = "fence.proxy.async.shared::cta;", "bar.sync 0;"
STORE = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd3, {%r11, %r11}], [%r6];"
OTHER = STORE.replace("[%r6]", "[%r6+2048]")
END = "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; done: ret; }"
ONE = "@%p1 bra done;"


@pytest.mark.parametrize("address", [SWIZZLE, PLAIN], ids=["swizzle", "plain"])
@pytest.mark.parametrize(
    ("text", "is_wrong"),
    [
        (f"{WRITE} {FENCE} {SYNC} {ONE} {STORE}", False),
        (f"{WRITE} {SYNC} {ONE} {STORE}", True),
        (f"{WRITE} {SYNC} {FENCE} {SYNC} {ONE} {STORE}", False),
        (f"{WRITE} {SYNC} {ONE} {STORE} {FENCE}", True),
        (f"{WRITE} {SYNC} {ONE} {OTHER}", False),
        (f"setp.gt.u32 %p2, %r2, 127; @%p2 {WRITE} {SYNC} @!%p2 bra done; {ONE} {STORE}", True),
        (f"setp.gt.u32 %p2, %r2, 127; @%p2 bra on; {WRITE} on: {SYNC} @!%p2 bra done; {ONE} {STORE}", False),
        (f"setp.gt.u32 %p2, %r2, 127; @%p2 {WRITE} {SYNC} @%p2 bra done; {ONE} {STORE}", False),
        (f"{WRITE} setp.gt.u32 %p2, %r11, 4; @%p2 bra on; {FENCE} on: {SYNC} {ONE} {STORE}", False),
    ],
    ids=[
        "fenced",
        "removed",
        "after-the-barrier",
        "late",
        "elsewhere",
        "guarded",
        "other-threads",
        "others-by-a-guard",
        "one-way",
    ],
)
def test_a_fence_comes_between_a_write_and_the_bulk_store_of_it(address: str, text: str, is_wrong: bool) -> None:
    whole = f"{HEAD}{address} {text} {END}"
    assert [each.rule_id for each in lint(whole)] == ["lint.proxy-fence"] * is_wrong
    assert assemble(whole, "sm_90a")[0]


@pytest.mark.parametrize("sample", [convolution.convolution, dynamic_gemm.gemm], ids=["convolution", "dynamic"])
def test_the_fence_of_a_swizzled_epilogue_is_missed(sample: object) -> None:
    text = sample.compile(cache=Cache.disabled(), assemble=False).ptx  # type: ignore[attr-defined]
    assert text.count(FENCE) == 1
    assert lint(text) == []
    assert [each.rule_id for each in lint(text.replace(FENCE, ""))] == ["lint.proxy-fence"]
