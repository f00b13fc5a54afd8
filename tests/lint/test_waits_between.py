"""`nvbackend.lint`: waits that must come between: stores to tensor memory and an mma, arrivals and their phases."""

from __future__ import annotations

import re

import pytest

from nvbackend.lint import lint
from tests.lint.test_lint import BOX, HEAD

TMEM_STORE = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r0], {%r1};"
TMEM_WAIT = "tcgen05.wait::st.sync.aligned;"
TMEM_MMA = "tcgen05.mma.cta_group::1.kind::f16 [%r2], [%r0], %rd0, %r3, %p1;"
OTHER_MMA = "tcgen05.mma.cta_group::1.kind::f16 [%r2], %rd1, %rd0, %r3, %p1;"
LANES = "shl.b32 %r4, %r3, 21; and.b32 %r8, %r4, 6291456; add.s32 %r5, %r8, %r0; add.s32 %r6, %r0, 0;"
"""The same columns in the lanes of a warp, and in all."""


def stored(place: str, count: int = 1) -> str:
    values = ", ".join(["%r1"] * count)
    return f"tcgen05.st.sync.aligned.32x32b.x{count}.b32 [{place}], {{{values}}};"


def multiplied(place: str) -> str:
    return f"tcgen05.mma.cta_group::1.kind::f16 [%r2], [{place}], %rd0, %r3, %p1;"


def accumulated(place: str) -> str:
    return f"tcgen05.mma.cta_group::1.kind::f16 [{place}], %rd1, %rd0, %r3, %p1;"


TMEM_COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r3];"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (f"{TMEM_STORE} {TMEM_WAIT} bar.sync 0; {TMEM_MMA}", ""),
        (f"{TMEM_STORE} bar.sync 0; {TMEM_MMA}", "lint.never-waited"),
        (f"{TMEM_STORE} bar.sync 0; {OTHER_MMA}", "lint.never-waited"),
        (f"{TMEM_STORE} bar.sync 0; {TMEM_MMA} {TMEM_WAIT}", "lint.tmem-write-in-flight"),
        (f"{TMEM_STORE} bar.sync 0; {OTHER_MMA} {TMEM_WAIT} {TMEM_MMA}", ""),
        (f"{TMEM_STORE} {TMEM_MMA} {TMEM_WAIT}", ""),
        (f"{TMEM_STORE} again: {TMEM_STORE} {TMEM_WAIT} bar.sync 0; {TMEM_MMA} @%p0 bra again;", ""),
        (
            f"{TMEM_STORE} {TMEM_WAIT} a: {TMEM_STORE} bar.sync 0; @%p1 bra n; {TMEM_MMA} n: @%p0 bra a; {TMEM_WAIT}",
            "lint.tmem-write-in-flight",
        ),
        (f"{TMEM_STORE} @%p1 bra next; {TMEM_WAIT} next: bar.sync 0; {TMEM_MMA}", ""),
        (f"{stored('%r0+32')} bar.sync 0; {TMEM_MMA} {TMEM_WAIT} bar.sync 0; {multiplied('%r0+32')}", ""),
        (f"{stored('%r0+32', 8)} bar.sync 0; {multiplied('%r0+39')} {TMEM_WAIT}", "lint.tmem-write-in-flight"),
        (f"{stored('%r0+32', 8)} bar.sync 0; {multiplied('%r0+40')} {TMEM_WAIT}", ""),
        (f"{stored('%r0+32', 8)} bar.sync 0; {multiplied('%r0+24')} {TMEM_WAIT}", ""),
        (f"{LANES} {stored('%r5')} bar.sync 0; {multiplied('%r6')} {TMEM_WAIT}", "lint.tmem-write-in-flight"),
        (f"{LANES} add.s32 %r6, %r0, 4; {stored('%r5')} bar.sync 0; {multiplied('%r6')} {TMEM_WAIT}", ""),
        (f"{LANES} @%p1 add.s32 %r7, %r0, 4; {stored('%r7')} bar.sync 0; {multiplied('%r7')} {TMEM_WAIT}", ""),
        (f"{LANES} {stored('%r5')} bar.sync 0; {accumulated('%r6')} {TMEM_WAIT}", "lint.tmem-write-in-flight"),
        (f"a: {TMEM_WAIT} {TMEM_STORE} bar.sync 0; @%p1 bra n; {TMEM_MMA} n: @%p0 bra a;", "lint.tmem-write-in-flight"),
        (f"a: {TMEM_STORE} {TMEM_WAIT} bar.sync 0; @%p1 bra n; {TMEM_MMA} n: @%p0 bra a;", ""),
        (f"a: add.s32 %r7, %r7, 4; {stored('%r7')} bar.sync 0; {multiplied('%r7')} {TMEM_WAIT} @%p0 bra a;", ""),
    ],
    ids=[
        *("", "no-wait", "no-wait-d", "late", "d-alone", "no-barrier", "covered", "round", "one-way", "tile-before"),
        *("last-column", "past", "before", "lanes", "set-twice", "by-a-condition", "accumulated"),
        *("wait-of-the-round-before", "waits-each-round", "in-a-loop"),
    ],
)
def test_tensor_memory_is_written_before_an_mma_reads_it(text: str, rule: str) -> None:
    head = re.sub(r"%r<\d+>", "%r<9>", HEAD).replace("%p<2>", "%p<3>")
    found = lint(f"{head}{text} {TMEM_COMMIT} ret; }}")
    assert [each.rule_id for each in found] == [rule] * bool(rule)


@pytest.mark.parametrize(("where", "is_stuck"), [("before", False), ("after", True), ("elsewhere", False), ("", True)])
def test_a_phase_is_completed_by_an_arrival_before_the_wait(where: str, is_stuck: bool) -> None:
    init = "mbarrier.init.shared::cta.b64 [box], 1; bar.sync 0;"
    wait = "mbarrier.try_wait.parity.shared::cta.b64 %p0, [box], 0;"
    arrive = "mbarrier.arrive.shared::cta.b64 _, [box];"
    before = {"before": f"@%p1 {arrive}", "elsewhere": f"@%p1 bra round; {arrive} bra past; round:"}.get(where, "")
    after = arrive if where == "after" else ""
    faults = lint(f"{BOX} {init} {before} w: {wait} @!%p0 bra w; {after} past: ret; }}")
    assert [fault.rule_id for fault in faults] == (["lint.mbarrier-stuck"] if is_stuck else [])


@pytest.mark.parametrize(("variable", "is_stuck"), [("ring", True), ("box", False)])
def test_an_arrival_somewhere_in_another_variable_completes_no_phase(variable: str, is_stuck: bool) -> None:
    init = "mbarrier.init.shared::cta.b64 [box], 1; bar.sync 0; ld.global.b32 %r2, [%rd1];"
    arrive = f"mov.u32 %r3, {variable}; add.s32 %r3, %r3, %r2; mbarrier.arrive.shared::cta.b64 _, [%r3];"
    wait = "w: mbarrier.try_wait.parity.shared::cta.b64 %p0, [box], 0; @!%p0 bra w;"
    text = f"{BOX} .shared .align 8 .b64 ring[4]; {init} {arrive} {wait} ret; }}"
    assert [fault.rule_id for fault in lint(text)] == (["lint.mbarrier-stuck"] if is_stuck else [])


@pytest.mark.parametrize(
    ("between", "is_stuck"),
    [
        ("bar.sync 0;", True),
        ("barrier.cta.sync.aligned 0;", True),
        ("", False),
        ("@%p1 bar.sync 0;", False),
        ("bar.sync 1;", False),
        ("bar.sync 0, 64;", False),
        ("bar.sync 0; bar.arrive 0, 64;", False),
        ("bar.sync 0; bar.red.popc.u32 %r3, 0, %p1;", False),
        ("bar.sync 0; bar.warp.sync -1;", True),
        ("bar.sync 0; bar.sync 1, 64;", True),
        ("bar.sync %r2;", False),
        ("again: bar.sync 0; @%p1 bra again;", True),
    ],
)
def test_an_arrival_past_a_barrier_of_all_comes_after_a_wait_before_it(between: str, is_stuck: bool) -> None:
    """A thread that has not waited cannot be past the barrier while another waits for the phase before it."""
    init = "mbarrier.init.shared::cta.b64 [box], 1; bar.sync 0; @%p1 bra past;"
    wait = "w: mbarrier.try_wait.parity.shared::cta.b64 %p0, [box], 0; @!%p0 bra w;"
    text = f"{BOX} {init} {wait} past: {between} mbarrier.arrive.shared::cta.b64 _, [box]; ret; }}"
    assert [fault.rule_id for fault in lint(text)] == (["lint.mbarrier-stuck"] if is_stuck else [])


@pytest.mark.parametrize(
    ("init", "address", "said"),
    [
        ("box", "box", "phase 0 of the mbarrier at box,"),
        ("ring+8", "ring+8", "phase 0 of the mbarrier at ring+8,"),
        ("ring+8", "box", "waits at the mbarrier at box,"),
        ("ring+8", "ring+16", "waits at the mbarrier at ring+16,"),
        ("ring+8", "all+24", "waits at the mbarrier at all+24,"),
    ],
)
def test_the_mbarrier_is_named(init: str, address: str, said: str) -> None:
    text = f".shared .align 8 .b64 ring[4]; mbarrier.init.shared::cta.b64 [{init}], 1; bar.sync 0;"
    wait = f"w: mbarrier.try_wait.parity.shared::cta.b64 %p0, [{address}], 0; @!%p0 bra w;"
    head = BOX.replace(".entry", ".extern .shared .align 8 .b8 all[];\n.entry", 1)
    (found,) = lint(f"{head} {text} {wait} ret; }}")
    assert said in found.message


def test_barriers_that_are_repeated_before_a_wait_are_not_counted() -> None:
    init = "mbarrier.init.shared::cta.b64 [box], 1; more: bar.sync 0; @%p1 bra more; @%p1 bra past;"
    wait = "w: mbarrier.try_wait.parity.shared::cta.b64 %p0, [box], 0; @!%p0 bra w;"
    assert lint(f"{BOX} {init} {wait} past: bar.sync 0; mbarrier.arrive.shared::cta.b64 _, [box]; ret; }}") == []
