"""`nvbackend.lint`: operations that are waited for where a branch goes one way, and not where it goes the other."""

from __future__ import annotations

from collections import Counter

import pytest

from nvbackend.lint import lint
from tests.lint.conditional import program, runs, text_of
from tests.lint.planted import planted
from tests.support.ptxas import assemble

HEAD = """.version 8.6
.target sm_90a
.address_size 64
.entry k(.param .u32 n, .param .u64 out) {
.reg .pred %p<9>; .reg .b32 %r<9>; .reg .f32 %f<4>; .reg .b64 %rd<4>; .shared .align 16 .b8 box[64];
ld.param.u32 %r0, [n]; ld.param.u64 %rd3, [out]; mov.u64 %rd0, 4611686293305360384; mov.u32 %r5, %tid.x;
setp.lt.s32 %p1, %r0, 1; setp.eq.s32 %p2, %r0, 1; and.b32 %r1, %r0, 1; setp.eq.b32 %p3, %r1, 1; setp.gt.s32 %p4, %r0, 9;
setp.ne.u32 %p5, %r5, 0; mul.wide.s32 %rd1, %r0, 4; setp.eq.s64 %p6, %rd1, 4;
"""
ISSUE = (
    "wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd0, %rd0, "
    "1, 1, 1, 0, 0; wgmma.commit_group.sync.aligned;"
)
WAIT, USE = "wgmma.wait_group.sync.aligned 0;", "st.global.f32 [%rd3], %f0;"
LOOP = f"mov.u32 %r4, 0; again: {ISSUE} add.s32 %r4, %r4, 1; setp.lt.s32 %p0, %r4, %r0; @%p0 bra again;"
IN_FLIGHT, LEFT = ["lint.register-in-flight"], ["lint.unwaited"]
STORE = "cp.async.bulk.global.shared::cta.bulk_group [%rd3], [box], 64; cp.async.bulk.commit_group;"
STORED = "cp.async.bulk.wait_group 0;"


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        (f"{ISSUE} @%p4 bra use; {WAIT} use: {USE} {WAIT}", IN_FLIGHT),
        (f"{ISSUE} @!%p4 bra use; {WAIT} use: {USE} {WAIT}", IN_FLIGHT),
        (f"{ISSUE} @%p4 bra else; {WAIT} bra use; else: {WAIT} use: {USE}", []),
        (f"@%p4 bra more; {ISSUE} more: @%p4 bra use; {WAIT} use: {USE}", []),
        (f"@%p4 bra more; {ISSUE} more: @!%p4 bra use; {WAIT} use: {USE} {WAIT}", IN_FLIGHT),
        (f"@%p4 bra more; {ISSUE} more: @%p3 bra use; {WAIT} use: {USE} {WAIT}", []),
        (f"@%p1 bra done; {LOOP} done: @%p1 bra use; {WAIT} use: {USE}", []),
        (f"@%p1 bra done; {LOOP} @%p1 bra done; {WAIT} done: {USE}", []),
        (f"@%p1 bra use; {LOOP} @%p3 bra use; {WAIT} use: {USE} {WAIT}", IN_FLIGHT),
        (f"@%p1 bra use; @%p2 bra more; {LOOP} more: @!%p3 bra use; {ISSUE} {WAIT} use: {USE} {WAIT}", IN_FLIGHT),
        (f"@%p1 bra use; @%p6 bra more; {LOOP} more: @!%p3 bra use; {ISSUE} {WAIT} use: {USE} {WAIT}", []),
        (f"@%p1 bra use; @%p3 bra more; {LOOP} more: @!%p3 bra use; {ISSUE} {WAIT} use: {USE} {WAIT}", IN_FLIGHT),
        (f"@%p3 bra more; {ISSUE} more: @!%p3 bra end; {USE} end: {WAIT}", []),
        (f"@%p3 bra more; {ISSUE} more: @%p2 bra use; bra end; use: {USE} end: {WAIT}", []),
        (f"@%p3 bra more; {ISSUE} more: @%p3 bra end; {USE} end: {WAIT}", IN_FLIGHT),
        (f"@%p5 bra on; {STORE} on: bar.sync 0; @%p5 bra done; {STORED} done:", []),
        (f"{STORE} bar.sync 0; @%p4 bra done; {STORED} done:", LEFT),
        (f"{ISSUE} @%p4 bra done; {WAIT} done:", LEFT),
    ],
    ids=[
        *("taken", "not-taken", "both-ways", "same-condition", "opposite-condition", "other-condition"),
        *("loop-and-wait", "wait-in-a-dead-branch", "odd-alone", "rest-of-two", "rest-by-another-sum", "rest-or-loop"),
        *("odd-and-even", "odd-and-one", "both-odd", "one-thread", "left-stored", "left"),
    ],
)
def test_a_wait_on_one_way_excuses_the_other_where_that_may_be_impossible(text: str, rules: list[str]) -> None:
    whole = f"{HEAD}{text} ret; }}"
    assert [each.rule_id for each in lint(whole)] == rules
    assert assemble(whole, "sm_90a")[0]


def test_the_branch_is_named() -> None:
    (found,) = lint(f"{HEAD}{ISSUE}\n@%p4 bra use;\n{WAIT}\nuse: {USE}\n{WAIT} ret; }}")
    (place,) = [place for text, place in found.notes if text == "it is so wherever this branch is taken"]
    assert place is not None
    assert place.line == HEAD.count("\n") + 2


def test_rounds_that_are_left_over_are_not_the_only_ones_that_wait() -> None:
    """A loop of two rounds at a time, and one round more where the number is odd: nvcc unrolls so."""
    wanted = ("nvrtc_tiles.ptx", "wgmma.wait_group", 2)
    (one,) = [one for one in planted() if one.key == wanted]
    (found,) = lint(one.text, one.file.name)
    assert found.rule_id == "lint.register-in-flight"
    assert lint(one.file.read_text(encoding="utf-8")) == []


def _judged(seed: int) -> str:
    steps = program(seed)
    of_values = runs(steps)
    if of_values is None:
        return "dead"
    text, uses = text_of(steps)
    found = lint(text)
    wrong = {use for run in of_values for use in run.wrong}
    if not wrong:
        assert not found, text
        return "right"
    said = {uses[each.location.line] for each in found if each.location is not None and each.location.line in uses}
    return "found" if said & wrong else "silent"


def test_random_kernels_with_conditional_waits() -> None:
    """What is right for every value draws nothing, and most of what is not is found at a use that is in flight."""
    judged = Counter(_judged(seed) for seed in range(200))
    assert judged["right"] >= 30
    assert judged["found"] >= 10 * judged["silent"]


@pytest.mark.exhaustive(seconds=60)
def test_many_random_kernels_with_conditional_waits() -> None:
    judged = Counter(_judged(seed) for seed in range(200, 6000))
    assert judged["right"] >= 1000
    assert judged["found"] >= 10 * judged["silent"]
