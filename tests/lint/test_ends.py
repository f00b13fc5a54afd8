"""`nvbackend.lint`: threads that leave the kernel early, and code that a compiler or a person wrote for each warp."""

from __future__ import annotations

from pathlib import Path

import pytest

from nvbackend.lint import lint
from tests.lint.test_one_way import HEAD, LEFT, STORE, STORED
from tests.support.ptxas import assemble

TWO_BUFFERS = (Path(__file__).parent / "texts" / "nvrtc_two_buffers.ptx").read_text(encoding="utf-8")
"""Thread 0 stores a buffer, and waits for the buffer before it: before the next writes, and at the end."""
LAST_WAIT = "	cp.async.bulk.wait_group.read 0;\n"
GUARDED_STORE = " ".join(f"@!%p5 {each};" for each in STORE.rstrip(";").split("; "))
SKIPS = "@%p5 bra 	$L__BB0_9;"
IS_OTHER = "setp.ne.s32 	%p{}, %r2, 0;"
ELECTED = "elect.sync %r9|%p{0}, -1; not.pred %p{0}, %p{0};"


def changed(*changes: tuple[str, str]) -> str:
    text = TWO_BUFFERS
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def by_warps(wait: str) -> str:
    """Warp 0 has its own copy of a round, which begins with the wait; the other warps have one without a store."""
    begin, end = (TWO_BUFFERS.index(label) for label in ("$L__BB0_4:\n", "$L__BB0_6:\n"))
    whole = TWO_BUFFERS[begin + len("$L__BB0_4:\n") : end]
    writing, _ = whole.split("	@%p2 bra")
    own = whole.replace("@%p2 bra", f"{IS_OTHER.format(2)}\n@%p2 bra")
    return changed(
        (IS_OTHER.format(2), "setp.ge.u32 	%p2, %r2, 32;"),
        (f"{whole}$L__BB0_6:\n", f"{own}bra $L__BB0_6;\n$others:\n{writing}$L__BB0_6:\n"),
        ("@%p2 bra 	$L__BB0_4;", "@%p2 bra $others;"),
        ("	cp.async.bulk.wait_group.read 1;\n", wait),
    )


@pytest.mark.parametrize(
    ("changes", "rules"),
    [
        ([(SKIPS, "@%p5 ret;")], []),
        ([(SKIPS, "@%p5 exit;")], []),
        ([(LAST_WAIT, f"{LAST_WAIT}ret;\n")], []),
        ([(IS_OTHER.format(number), ELECTED.format(number)) for number in (2, 5)] + [(SKIPS, "@%p5 ret;")], []),
        ([(LAST_WAIT, "")], LEFT),
        ([(LAST_WAIT, ""), (SKIPS, "@%p5 ret;")], LEFT),
        ([(SKIPS, "@!%p5 ret;")], LEFT),
    ],
    ids=["ret", "exit", "two-ends", "elected", "no-wait", "ret-and-no-wait", "the-thread-that-stores"],
)
def test_threads_that_store_nothing_may_leave_before_the_wait(changes: list[tuple[str, str]], rules: list[str]) -> None:
    text = changed(*changes)
    assert [each.rule_id for each in lint(text)] == rules
    assert assemble(text, "sm_90a")[0]


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        (f"{STORE} @%p4 ret; {STORED}", LEFT),
        (f"@%p4 bra on; {STORE} on: @%p4 ret; {STORED}", []),
        (f"@%p4 bra on; {STORE} on: @!%p4 ret; {STORED}", LEFT),
        (f"{GUARDED_STORE} @%p5 ret; {STORED}", []),
        (f"{GUARDED_STORE} @!%p5 ret; {STORED}", LEFT),
        (f"{GUARDED_STORE} ret;", LEFT),
    ],
    ids=["any", "same-condition", "opposite-condition", "guarded", "opposite-guard", "guarded-and-no-wait"],
)
def test_a_ret_with_a_condition_is_a_way_like_others(text: str, rules: list[str]) -> None:
    whole = f"{HEAD}{text} ret; }}"
    assert [each.rule_id for each in lint(whole)] == rules
    assert assemble(whole, "sm_90a")[0]


def test_a_warp_may_wait_for_all_before_a_barrier() -> None:
    assert lint(by_warps("	cp.async.bulk.wait_group.read 1;\n")) == []
    found = lint(by_warps(""))
    assert [each.rule_id for each in found] == ["lint.written-in-flight"]
    assert assemble(by_warps(""), "sm_90a")[0]
