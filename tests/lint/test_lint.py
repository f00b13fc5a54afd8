"""`nvbackend.lint`: nothing about right kernels, and what one removed instruction breaks."""

from __future__ import annotations

from pathlib import Path

import pytest

from nvbackend.lint import lint
from tests.lint.planted import FILES, HARMLESS, Planted, planted
from tests.ptx.texts import OWN, own_text

PLANTED = planted()
RULES = {
    "wgmma.wait_group": {
        *("lint.register-in-flight", "lint.stage-in-flight", "lint.written-in-flight", "lint.unwaited"),
    },
    "wgmma.commit_group": {"lint.uncommitted", "lint.written-in-flight"},
    "wgmma.fence": {"lint.wgmma-fence"},
    "fence.proxy.async": {"lint.proxy-fence"},
    "tcgen05.wait::ld": {"lint.register-in-flight"},
    "cp.async.bulk.commit_group": {"lint.uncommitted"},
    "cp.async.commit_group": {"lint.never-committed", "lint.copy-in-flight"},
    "cp.async.wait_group": {"lint.never-waited", "lint.copy-in-flight", "lint.written-in-flight"},
    "tcgen05.commit": {"lint.never-committed", "lint.mbarrier-stuck"},
    "mbarrier.init": {"lint.mbarrier-init"},
    "cp.async.bulk.wait_group": {"lint.unwaited", "lint.written-in-flight"},
    "tcgen05.wait::st": {"lint.never-waited", "lint.tmem-write-in-flight"},
}
NAMED_SMALL = ("nvrtc_tiles", "nvrtc_through_registers", "nvrtc_two_buffers", "triton_two_dots", "triton_tma_store")
SMALL = [one for one in FILES if one.stem in NAMED_SMALL]
FEW = [one for one in PLANTED if one.number == 1 and one.file in SMALL and one.file.stem != "nvrtc_tiles"]


def test_there_is_enough_of_it() -> None:
    mistakes = [one for one in PLANTED if one.key not in HARMLESS]
    assert len(FILES) >= 20
    assert len(mistakes) >= 150
    assert {"triton", "nvrtc"} == {one.file.name.partition("_")[0] for one in mistakes}
    assert HARMLESS.keys() <= {one.key for one in PLANTED}


@pytest.mark.parametrize("file", SMALL, ids=lambda one: one.stem)
def test_nothing_is_said_about_right_kernels(file: Path) -> None:
    assert lint(file.read_text(encoding="utf-8"), file.name) == []


@pytest.mark.exhaustive(seconds=1)
@pytest.mark.parametrize("file", FILES, ids=lambda one: one.stem)
def test_nothing_is_said_about_any_right_kernel(file: Path) -> None:
    assert lint(file.read_text(encoding="utf-8"), file.name) == []


@pytest.mark.exhaustive(seconds=1)
@pytest.mark.parametrize("index", range(len(OWN)))
def test_nothing_is_said_about_our_own_kernels(index: int) -> None:
    assert lint(own_text(index)) == []


@pytest.mark.parametrize("one", FEW, ids=str)
def test_a_removed_instruction_is_missed(one: Planted) -> None:
    assert _is_reported(one)


@pytest.mark.exhaustive(seconds=1)
@pytest.mark.parametrize("one", PLANTED, ids=str)
def test_every_removed_instruction_is_missed(one: Planted) -> None:
    assert _is_reported(one)


def _is_reported(one: Planted) -> bool:
    """Whether what is said is what the table of the removed instruction expects, at lines of the file."""
    found = lint(one.text, one.file.name)
    rules = {diagnostic.rule_id for diagnostic in found}
    if one.key in HARMLESS:
        return not rules
    files = {diagnostic.location.file for diagnostic in found if diagnostic.location is not None}
    return bool(rules) and rules <= RULES[one.instruction] and files == {one.file.name}


def test_the_line_of_the_source_is_named() -> None:
    one = next(one for one in PLANTED if one.file.stem == "nvrtc_tiles" and one.instruction == "wgmma.commit_group")
    (found,) = lint(one.text, one.file.name)
    place = next(where for text, where in found.notes if text == "compiled from this line")
    assert place is not None
    assert place.file == "kernels.cu"
    # The loop's wait in the program that it was compiled from.
    assert place.line == 15


REGISTERS = ".reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %rd<4>;"
HEAD = f".version 8.6\n.target sm_100a\n.address_size 64\n.entry k() {{\n{REGISTERS}\n"
LOAD = "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r0, %r1}, [%r2];"
PACKED = "cvt.u64.u32 %rd0, %r0; cvt.u64.u32 %rd1, %r1; shl.b64 %rd2, %rd1, 32; or.b64 %rd3, %rd0, %rd2;"
"""Two words in one register, as Triton packs them, before the wait as well."""
WAIT = "tcgen05.wait::ld.sync.aligned;"


def test_words_are_packed_before_the_wait_and_used_after_it() -> None:
    assert lint(f"{HEAD}{LOAD}\n{PACKED}\n{WAIT}\nst.global.b64 [%rd0], %rd3; ret; }}") == []
    (found,) = lint(f"{HEAD}{LOAD}\n{PACKED}\n\nst.global.b64 [%rd0], %rd3; ret; }}")
    assert found.rule_id == "lint.register-in-flight"
    assert found.location is not None
    assert found.location.line == 9


def test_a_fence_under_a_condition_may_be_enough() -> None:
    """The wgmma may be under the same condition."""
    tile = "mov.b32 %r0, 0; cvt.u64.u32 %rd0, %r0; or.b64 %rd0, %rd0, 4611686293305360384;"
    mma = "wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%r1, %r2}, %rd0, %rd0, 1, 1, 1, 0, 0;"
    after = f"{mma} wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; ret; }}"
    head = HEAD.replace("sm_100a", "sm_90a")
    assert lint(f"{head}{tile} @%p0 bra skip; wgmma.fence.sync.aligned; skip: {after}") == []
    assert [found.rule_id for found in lint(f"{head}{tile} @%p0 bra skip; skip: {after}")] == ["lint.wgmma-fence"]


COPY = "cp.async.cg.shared.global [box], [%rd1], 16; cp.async.commit_group;"
STAGE = COPY.replace("box", "%r3")
READ = "ld.shared.b32 %r1, [box]; st.global.b32 [%rd1], %r1;"
ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [%r2];"
DONE = "cp.async.wait_group 0; bar.sync 0;"
BOX = HEAD.replace("sm_100a", "sm_90a") + ".shared .align 16 .b8 box[64];"


@pytest.mark.parametrize(
    "text",
    [
        f"again: @%p0 bra wait; {COPY} bra.uni next; wait: {DONE} {READ} next: @%p1 bra again; {DONE} ret; }}",
        f"again: {STAGE} cp.async.wait_group 1; bar.sync 0; @%p0 bra next; {READ} next: @%p1 bra again; {DONE} ret; }}",
        f"{COPY} call work; {READ} {DONE} ret; }}",
        f"@%p0 bra read; {COPY} {DONE} read: {READ} ret; }}",
        f"st.shared.b32 [box], %r2; bar.sync 0; {READ} {COPY} {DONE} ret; }}",
        f"st.shared.b32 [box], %r2; @%p0 bra read; {COPY} read: {READ} {DONE} ret; }}",
    ],
    ids=["later-rounds", "from-the-second-round", "call", "other-path", "read-first", "stored"],
)
def test_a_copy_may_be_complete_or_not_what_is_read(text: str) -> None:
    """Where a guard leaves the first round out, where a call may wait, and where a store is what is read."""
    text = text.replace("call work;", "call work, ();")
    assert (
        lint(f".version 8.6\n.target sm_90a\n.address_size 64\n.func work();\n{BOX.partition('64' + chr(10))[2]}{text}")
        == []
    )


@pytest.mark.parametrize("loop", ["", "again:"])
def test_the_first_round_reads_before_any_wait(loop: str) -> None:
    back = "@%p1 bra again;" if loop else ""
    faults = lint(f"{BOX} {COPY} {loop} {READ} {DONE} {back} ret; }}")
    assert [fault.rule_id for fault in faults] == ["lint.copy-in-flight"]


LAST = "cp.async.wait_group 1; bar.sync 0;"
STORE = "st.shared.b32 [box], %r2;"
BRANCHES = " ".join(f"@%p0 bra one{at}; bra.uni on{at}; one{at}: on{at}:" for at in range(40))
"""Ways that double with each, and nothing happens on them."""


@pytest.mark.parametrize(
    ("text", "is_wrong"),
    [
        (f"again: {LAST} {COPY} @%p1 bra again; bar.sync 0; {STORE}", True),
        (f"again: {LAST} {COPY} @%p1 bra again; {BRANCHES} bar.sync 0; {STORE}", True),
        (f"{COPY} @%p0 bra done; again: {LAST} {COPY} @%p1 bra again; done: bar.sync 0; {STORE}", True),
        (f"@%p0 bra done; again: {LAST} {COPY} @%p1 bra again; done: bar.sync 0; {STORE}", True),
        (f"again: {LAST} {COPY} @%p1 bra again; {DONE} {STORE}", False),
        (f"again: {LAST} {COPY} @%p1 bra again; bar.sync 0; {STORE.replace('box', 'box+16')}", False),
        (f"again: {LAST} {COPY} @%p1 bra again; bar.sync 0; @%p0 {STORE}", False),
        (f"again: {LAST} {STAGE} @%p1 bra again; bar.sync 0; {STORE}", False),
        (f"again: {LAST} @%p0 {COPY} @%p1 bra again; bar.sync 0; {STORE}", False),
        (f"again: {LAST} @%p0 bra next; {COPY} next: @%p1 bra again; bar.sync 0; {STORE}", False),
    ],
    ids=[
        "",
        "branches",
        "no-round",
        "nothing-copied",
        "waited",
        "elsewhere",
        "guarded",
        "any-stage",
        "guarded-copy",
        "other-path",
    ],
)
def test_stores_after_a_loop_to_what_its_last_copies_write(text: str, is_wrong: bool) -> None:
    found = lint(f"{BOX} {text} ret; }}")
    assert [(each.rule_id, "may still be writing" in each.message) for each in found] == [
        ("lint.written-in-flight", True)
    ] * is_wrong


def test_each_mbarrier_has_an_init() -> None:
    init, wait = "mbarrier.init.shared::cta.b64", "mbarrier.try_wait.parity.shared::cta.b64"
    waits = " ".join(f"w{at}: {wait} %p0, [box+{at}], 0; @!%p0 bra w{at};" for at in (0, 8, 16))
    arrive = f"bar.sync 0; {ARRIVE}"
    assert lint(f"{BOX} {init} [box], 1; {init} [box+8], 1; {init} [box+16], 1; {arrive} {waits} ret; }}") == []
    (fault,) = lint(f"{BOX} {init} [box], 1; {init} [box+16], 1; {arrive} {waits} ret; }}")
    assert fault.rule_id == "lint.mbarrier-init"
    unknown = f"{init} [%r3], 1; {arrive} {waits} ret; }}"
    assert lint(f"{BOX} {unknown}") == []


MMA = "tcgen05.mma.cta_group::1.kind::f16 [%r3], %rd2, %rd2, %r3, %p1;"


@pytest.mark.parametrize(
    ("issue", "target", "rules"),
    [
        ("cp.async.cg.shared.global [box], [%rd1], 16;", "sm_90a", {"lint.never-committed", "lint.never-waited"}),
        (MMA, "sm_100a", {"lint.never-committed"}),
    ],
)
def test_the_caller_of_a_function_may_commit_and_wait(issue: str, target: str, rules: set[str]) -> None:
    text = f"{BOX.replace('sm_90a', target)} {issue} ret; }}"
    assert {fault.rule_id for fault in lint(text)} == rules
    assert lint(text.replace(".entry k()", ".func k()")) == []


GENERIC = "mov.u64 %rd2, box; cvta.shared.u64 %rd3, %rd2;"


@pytest.mark.parametrize(
    ("write", "is_seen"),
    [
        ("st.b32 [%rd3], %r2;", True),
        ("st.b32 [%rd0], %r2;", True),
        ("atom.add.u32 %r3, [%rd3], %r2;", True),
        ("atom.shared.add.u32 %r3, [%rd0], %r2;", True),
        ("red.add.u32 [%rd3], %r2;", True),
        ("st.shared::cluster.b32 [%r3], %r2;", True),
        ("st.b32 [%rd3+48], %r2;", False),
        ("st.global.b32 [%rd0], %r2;", False),
    ],
)
def test_a_write_by_a_generic_address_may_be_what_is_read(write: str, is_seen: bool) -> None:
    found = lint(f"{BOX} {GENERIC} {COPY} {write} {READ} {DONE} ret; }}")
    assert [fault.rule_id for fault in found] == ([] if is_seen else ["lint.copy-in-flight"])


INIT = "mbarrier.init.shared::cta.b64"


def test_arrays_of_dynamic_shared_memory_begin_at_one_address() -> None:
    wait = f"{ARRIVE} w: mbarrier.try_wait.parity.shared::cta.b64 %p0, [second+8], 0;"
    arrays = "".join(f".extern .shared .align 16 .b8 {name}[]; " for name in ("first", "second"))
    assert lint(f"{BOX} {arrays} {INIT} [first+8], 1; bar.sync 0; {wait} @!%p0 bra w; ret; }}") == []
    (fault,) = lint(f"{BOX} {arrays} {INIT} [first], 1; bar.sync 0; {wait} @!%p0 bra w; ret; }}")
    assert fault.rule_id == "lint.mbarrier-init"


def test_a_number_with_its_highest_bit_is_subtracted() -> None:
    wait = f"{ARRIVE.replace('%r2', 'box+8')} w: mbarrier.try_wait.parity.shared::cta.b64 %p0, [box+8], 0;"
    start = "mov.u32 %r1, box; add.u32 %r2, %r1, 4294967288;"
    assert lint(f"{BOX} {start} {INIT} [%r2+16], 1; bar.sync 0; {wait} @!%p0 bra w; ret; }}") == []


PIPELINE = f"""{BOX.replace("box[64]", "box[3072]")}
mov.u32 %r0, %tid.x; and.b32 %r0, %r0, 31; shl.b32 %r0, %r0, 4; mov.u32 %r1, box; add.u32 %r0, %r0, %r1;
cp.async.cg.shared.global [%r0], [%rd1], 16; FIRST
cp.async.cg.shared.global [%r0+512], [%rd1], 16; cp.async.commit_group;
mov.b32 %r2, 0; mov.b32 %r3, 1024;
again: cp.async.wait_group LEFT; bar.sync 0; add.u32 %r1, %r0, %r2; ld.shared.b32 %r1, [%r1]; st.global.b32 [%rd1], %r1;
bar.sync 0; add.u32 %r1, %r0, %r3; cp.async.cg.shared.global [%r1], [%rd1], 16; AGAIN
add.u32 %r2, %r2, 512; setp.eq.u32 %p0, %r2, 1536; selp.u32 %r2, 0, %r2, %p0;
add.u32 %r3, %r3, 512; setp.eq.u32 %p0, %r3, 1536; selp.u32 %r3, 0, %r3, %p0;
@%p1 bra again; cp.async.wait_group 0; ret; }}"""
"""A ring of three stages of 512 bytes, filled two rounds ahead."""


@pytest.mark.parametrize(
    ("first", "left", "again", "place"),
    [
        ("COMMIT", "1", "COMMIT", None),
        ("", "1", "COMMIT", " in round 1 of the loop"),
        ("COMMIT", "2", "COMMIT", " in round 1 of the loop"),
        ("COMMIT", "1", "@%p1 cp.async.commit_group;", None),
    ],
)
def test_groups_are_counted_round_by_round(first: str, left: str, again: str, place: str | None) -> None:
    """What a stage holds in a round, by the addresses of each thread; a commit under a condition may be executed."""
    text = PIPELINE.replace("FIRST", first).replace("LEFT", left).replace("AGAIN", again)
    faults = lint(text.replace("COMMIT", "cp.async.commit_group;"))
    assert [fault.rule_id for fault in faults] == (["lint.copy-in-flight"] if place else [])
    assert place is None or f"fills{place}: no cp.async." in faults[0].message


def test_stores_after_a_loop_to_what_its_last_copies_fill_after_some_rounds() -> None:
    """A store to one of three stages: after two rounds, and after three, a copy is on its way there."""
    counted = "add.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, "
    text = PIPELINE.replace("COMMIT", "cp.async.commit_group;").replace("FIRST", "cp.async.commit_group;")
    text = text.replace("LEFT", "1").replace("AGAIN", "cp.async.commit_group;").replace("%r<4>", "%r<10>")
    text = text.replace("again:", "mov.b32 %r9, 0; mov.u32 %r8, %nctaid.x; again:").replace(
        "@%p1", counted + "%r8; @%p1"
    )
    assert lint(text) == []
    late = text.replace(
        "@%p1 bra again; cp.async.wait_group 0;", "@%p1 bra again; bar.sync 0; st.shared.b32 [box], %r2;"
    )
    (fault,) = lint(late)
    assert fault.rule_id == "lint.written-in-flight"
    assert "where the loop ends after round 2: no cp.async.wait_group" in fault.message
    assert lint(late.replace(counted + "%r8", counted + "7")) == []
    assert lint(late.replace(counted + "%r8", counted + "6")) != []


def test_threads_that_read_what_others_copied_are_looked_at() -> None:
    """Thread t reads the piece of thread 31 - t, by arithmetic on its number."""
    head = f"{BOX.replace('box[64]', 'box[1024]')} mov.u32 %r0, %tid.x; and.b32 %r0, %r0, 31; mov.u32 %r3, box;"
    copy = "shl.b32 %r1, %r0, 4; add.u32 %r1, %r1, %r3; cp.async.cg.shared.global [%r1], [%rd1], 16;"
    other = (
        "xor.b32 %r2, %r0, 31; mad.lo.s32 %r2, %r2, 16, %r3; ld.shared.b32 %r2, [%r2+AT]; st.global.b32 [%rd1], %r2;"
    )
    text = f"{head} {copy} cp.async.commit_group; {other} cp.async.wait_group 0; ret; }}"
    assert [fault.rule_id for fault in lint(text.replace("AT", "0"))] == ["lint.copy-in-flight"]
    assert lint(text.replace("AT", "512")) == []


def test_a_wait_for_loads_may_come_after_a_use() -> None:
    """The machine waits by register: Triton 3.9 moves sums above the wait."""
    text = f"{HEAD}{LOAD} add.f32 %r3, %r0, %r1; WAIT st.global.b32 [%rd0], %r3; ret; }}"
    assert lint(text.replace("WAIT", WAIT)) == []
    assert [fault.rule_id for fault in lint(text.replace("WAIT", ""))] == ["lint.register-in-flight"]


STORE = "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [box], 64; cp.async.bulk.commit_group;"
LOADS = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [box], [%rd1], 64, [%r2];"
READ_WAIT = "cp.async.bulk.wait_group.read 0;"


@pytest.mark.parametrize(
    ("between", "is_seen"),
    [("", True), (READ_WAIT, False), (f"@%p1 bra on; {READ_WAIT} on:", False), ("bar.sync 1, 64;", False)],
)
def test_memory_that_a_bulk_store_reads_is_not_filled(between: str, is_seen: bool) -> None:
    """Unless a wait may have come before it, of this thread or of one that meets it at a barrier of some threads."""
    faults = lint(f"{BOX} {STORE} {between} {LOADS} cp.async.bulk.wait_group 0; ret; }}")
    assert [fault.rule_id for fault in faults] == (["lint.written-in-flight"] if is_seen else [])


@pytest.mark.parametrize(
    ("between", "is_seen"),
    [("", True), (LOADS, False), (LOADS.replace("[box]", "[box+16]"), True), ("fence.proxy.async;", False)],
)
def test_what_a_copy_has_filled_since_needs_no_fence(between: str, is_seen: bool) -> None:
    """The bulk store reads what a thread wrote, unless a copy has brought other bytes there."""
    faults = lint(f"{BOX} st.shared.b32 [box], %r2; {between} {STORE} cp.async.bulk.wait_group 0; ret; }}")
    assert [fault.rule_id for fault in faults] == (["lint.proxy-fence"] if is_seen else [])


@pytest.mark.parametrize(
    ("chosen", "waits", "is_left"),
    [
        ("setp.ne.u32 %p1, %r0, 0;", "@%p1 bra out;", False),
        ("setp.ne.u32 %p1, %r0, 0;", "bra out;", True),
        ("setp.ne.u32 %p1, %r0, 32;", "bra out;", True),
        ("elect.sync %r1|%p1, -1; not.pred %p1, %p1;", "bra out;", True),
        ("setp.ne.u32 %p1, %r0, 0;", "setp.eq.u32 %p1, %r0, 0; @%p1 bra out;", True),
        ("setp.ne.u32 %p1, %r0, 0;", "setp.eq.u32 %p1, %r0, 1; @%p1 bra out;", False),
    ],
)
def test_a_thread_that_stores_alone_waits_for_its_stores(chosen: str, waits: str, is_left: bool) -> None:
    """Each round one thread waits for the stores of the round before; the last ones are waited for after the loop."""
    condition = f"mov.u32 %r0, %tid.x; {chosen}"
    filled = "bar.sync 0; st.shared.b32 [box], %r2; fence.proxy.async.shared::cta; bar.sync 0;"
    wait = f"@%p1 bra stored; {READ_WAIT} stored: {filled}"
    loop = (
        f"again: {wait} @%p1 bra next; {BULK} next: ld.global.b32 %r2, [%rd1]; setp.eq.u32 %p0, %r2, 0; @%p0 bra again;"
    )
    text = f"{BOX} {condition} {loop} {waits} {READ_WAIT} out: ret; }}"
    assert [each.rule_id for each in lint(text)] == ["lint.unwaited"] * is_left


@pytest.mark.parametrize("body", ["", "mbarrier.init.shared::cta.b64 [%r2], 1;"])
def test_a_body_may_end_without_ret(body: str) -> None:
    assert lint(f"{BOX} {body} }}") == []


@pytest.mark.parametrize("commit", ["", "cp.async.commit_group;"])
def test_a_wait_for_all_copies_needs_no_group(commit: str) -> None:
    wait = "cp.async.wait_all; bar.sync 0;"
    copy = COPY.replace("cp.async.commit_group;", commit)
    assert lint(f"{BOX} {copy} {wait} {READ} ret; }}") == []
    assert lint(f"{BOX} {copy} {READ} {wait} ret; }}") != []


BULK = "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [box], 64; cp.async.bulk.commit_group;"
SENT = "fence.proxy.async.shared::cta; bar.sync 0;"
BULK_WAIT, BULK_END = "cp.async.bulk.wait_group.read 0;", "cp.async.bulk.wait_group 0; ret; }"


@pytest.mark.parametrize(
    ("text", "is_wrong"),
    [
        (f"again: {BULK_WAIT} bar.sync 0; %s {SENT} @%p0 {BULK} @%p1 bra again;", False),
        (f"again: bar.sync 0; %s {SENT} @%p0 {BULK} @%p1 bra again;", True),
        (f"again: bar.sync 0; %s {SENT} @%p0 {BULK} @%p0 {BULK_WAIT} @%p1 bra again;", False),
    ],
)
@pytest.mark.parametrize(
    "store", ["st.shared.b32 [box+8], %r2;", "stmatrix.sync.aligned.m8n8.x1.shared.b16 [box], {%r1};"]
)
def test_one_thread_waits_before_a_tile_is_filled_again(text: str, store: str, is_wrong: bool) -> None:
    """The issuer alone knows its groups: the store after the barrier is everybody's."""
    found = lint(f"{BOX}.reg .b32 %t; {text.replace('%s', store)} {BULK_END}")
    assert [each.rule_id for each in found] == ["lint.written-in-flight"] * is_wrong
