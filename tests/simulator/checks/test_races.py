"""Right kernels draw nothing over several seeds; with one line left out each draws its rule, at both lines.

A line that ends in `// drop: RULE` is the one that is left out.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from nvbackend import DiagnosticError
from nvbackend.simulator import Simulator
from nvbackend.simulator.checks.shadow import Shadow
from tests.simulator.calls import bodies
from tests.simulator.calls.bodies import run

WORD = "shl.b32 %r3, %r0, 2; add.u32 %r4, %r3, %r1; mul.wide.u32 %rd9, %r0, 4; add.u64 %rd8, %rd9, %rd0;"
READY = "@%p0 mbarrier.init.shared.b64 [%r2], 1; @%p0 mbarrier.init.shared.b64 [%r2+8], {count}; bar.sync 0;"
WAIT = "{label}: mbarrier.try_wait.parity.shared.b64 %p1, [%r2{at}], {parity}; @!%p1 bra {label};"

EXCHANGE = f"""{WORD}
st.shared.u32 [%r4], %r0;
bar.sync 0; // drop: shared.missing-barrier
xor.b32 %r5, %r4, 128;
ld.shared.u32 %r9, [%r5];
st.global.u32 [%rd8], %r9;"""

TWO_ROUNDS = f"""{WORD}
st.shared.u32 [%r4], %r0;
bar.sync 0;
xor.b32 %r5, %r4, 128;
ld.shared.u32 %r9, [%r5];
bar.sync 0; // drop: shared.overwritten-early
add.u32 %r9, %r9, %r9;
st.shared.u32 [%r4], %r9;"""

COUNTED = f"""{WORD}
st.shared.u32 [%r4], %r0;
bar.sync 0;
xor.b32 %r5, %r4, 128;
red.shared.add.u32 [%r5], 1;
bar.sync 0; // drop: shared.missing-barrier
ld.shared.u32 %r9, [%r4];
st.global.u32 [%rd8], %r9;"""

HANDED_OVER = f"""{READY.format(count=32)}{WORD}
setp.lt.u32 %p2, %r0, 32;
@%p2 bra READ;
st.shared.u32 [%r4], %r0;
mbarrier.arrive.shared.b64 _, [%r2+8];
bra END;
READ:
{WAIT.format(label="W", at="+8", parity=0)} // drop: shared.missing-barrier
ld.shared.u32 %r9, [%r4+128];
st.global.u32 [%rd8], %r9;
END:
bar.sync 0;"""

LOADED = f"""{READY.format(count=1)}{WORD}
@!%p0 bra W;
mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 256;
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 256, [%r2];
W: setp.ge.u32 %p2, %r0, 64;
{WAIT.format(label="W2", at="", parity=0)} // drop: proxy.read-before-wait
ld.shared.u32 %r9, [%r4];
st.global.u32 [%rd8], %r9;
{WAIT.format(label="W3", at="", parity=0)}"""

REFILLED = f"""{READY.format(count=64)}{WORD}
mov.u32 %r10, 0;
LOOP:
@!%p0 bra GO;
mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 256;
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 256, [%r2];
GO:
W: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], %r10; @!%p1 bra W;
ld.shared.u32 %r9, [%r4];
st.global.u32 [%rd8], %r9;
mbarrier.arrive.shared.b64 _, [%r2+8];
W2: mbarrier.try_wait.parity.shared.b64 %p1, [%r2+8], %r10; @!%p1 bra W2; // drop: proxy.refill-in-flight
add.u32 %r10, %r10, 1;
setp.lt.u32 %p3, %r10, 2;
@%p3 bra LOOP;"""

STORED = f"""{WORD}
st.shared.u32 [%r4], %r0;
fence.proxy.async.shared::cta; // drop: proxy.missing-fence
bar.sync 0;
@!%p0 bra END;
cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r1], 256;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group.read 0;
END:"""

WRITTEN_THERE = f"""{READY.format(count=1)}{WORD}
st.global.u32 [%rd8], %r0;
fence.proxy.async.global; // drop: proxy.missing-fence
bar.sync 0;
@!%p0 bra W;
mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 256;
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd0], 256, [%r2];
{WAIT.format(label="W", at="", parity=0)}
ld.shared.u32 %r9, [%r4];"""

WRITTEN_BEFORE_COPY = f"""{READY.format(count=1)}{WORD}
st.shared.u32 [%r4], %r0;
fence.proxy.async.shared::cta; // drop: proxy.missing-fence
bar.sync 0;
@!%p0 bra W;
mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 256;
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 256, [%r2];
{WAIT.format(label="W", at="", parity=0)}
ld.shared.u32 %r9, [%r4];
st.global.u32 [%rd8], %r9;"""

COPIED_BEFORE_COPY = WRITTEN_BEFORE_COPY.replace(
    "st.shared.u32 [%r4], %r0;",
    "add.u64 %rd7, %rd9, %rd1; cp.async.ca.shared.global [%r4], [%rd7], 4; cp.async.wait_all;",
)
COPIED_BEFORE_STORE = STORED.replace(
    "st.shared.u32 [%r4], %r0;",
    "add.u64 %rd7, %rd9, %rd1; cp.async.ca.shared.global [%r4], [%rd7], 4; cp.async.wait_all;",
)
STORED_BEFORE_BARRIER = STORED.replace(" // drop: proxy.missing-fence", "").replace(
    "bar.sync 0;", "bar.sync 0; // drop: shared.missing-barrier"
)

OVERWRITTEN = f"""{WORD}
st.shared.u32 [%r4], %r0;
fence.proxy.async; bar.sync 0;
@!%p0 bra NEXT;
cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r1], 256;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group.read 0; // drop: proxy.write-in-flight
NEXT:
bar.sync 0;
st.shared.u32 [%r4], %r3;
@%p0 cp.async.bulk.wait_group 0;"""

NOT_WAITED = STORED.replace(" // drop: proxy.missing-fence", "").replace(
    ".read 0;", ".read 0; // drop: proxy.store-not-waited"
)
NOT_COMMITTED = NOT_WAITED.replace(" // drop: proxy.store-not-waited", "").replace(
    "commit_group;", "commit_group; // drop: proxy.store-not-committed"
)

COPIED = f"""{WORD}
add.u64 %rd7, %rd9, %rd1;
cp.async.ca.shared.global [%r4], [%rd7], 4;
cp.async.commit_group;
cp.async.wait_group 0; // drop: async-copy.read-before-wait
bar.sync 0;
xor.b32 %r5, %r4, 128;
ld.shared.u32 %r9, [%r5];
st.global.u32 [%rd8], %r9;
cp.async.wait_all;"""

COPIED_WITHOUT_BARRIER = COPIED.replace(" // drop: async-copy.read-before-wait", "").replace(
    "bar.sync 0;", "bar.sync 0; // drop: async-copy.read-before-wait"
)

SUMMED = """mov.u32 %r9, 7;
setp.lt.u32 %p1, %r0, 32;
@%p1 st.global.u32 [%rd0], %r9;
bar.sync 0; // drop: simulator.race
@!%p1 ld.global.u32 %r9, [%rd0];"""

ADDED = """bar.sync 0;
red.global.add.u32 [%rd0], %r0;
bar.sync 0; // drop: simulator.race
@%p0 ld.global.u32 %r9, [%rd0];
@%p0 st.global.u32 [%rd0+4], %r9;"""

PUBLISHED = f"""{WORD}
setp.ge.u32 %p2, %r0, 32;
@%p2 bra READ;
st.global.u32 [%rd8], %r0;
fence.acq_rel.gpu; bar.warp.sync -1;
@%p0 st.relaxed.gpu.global.u32 [%rd0+1024], 1;
bra END;
READ:
ld.relaxed.gpu.global.u32 %r9, [%rd0+1024]; setp.eq.u32 %p3, %r9, 1; @!%p3 bra READ; // drop: simulator.race
fence.acq_rel.gpu;
ld.global.u32 %r9, [%rd8+-128];
END:"""

OTHER_WAY = {
    # what the same two accesses are where a seed has them in the other order
    rule: group
    for group in (
        {"shared.missing-barrier", "shared.overwritten-early"},
        {"proxy.read-before-wait", "proxy.refill-in-flight", "simulator.missing-warp-sync"},
    )
    for rule in group
}
KERNELS = {
    name: text
    for name, text in list(globals().items())
    if name.isupper() and isinstance(text, str) and "// drop: " in text
}


def launch(text: str, seed: int) -> list[str]:
    """The rules that it breaks, none for a right kernel."""
    out, source = np.zeros(512, np.uint32), np.arange(512, dtype=np.uint32)
    run(text, out, source, threads=64, seed=seed)
    return []


@pytest.mark.parametrize("name", KERNELS)
def test_a_right_kernel_draws_nothing(name):
    for seed in range(5):
        assert launch(re.sub("// drop.*", "", KERNELS[name]), seed) == []


@pytest.mark.parametrize("name", KERNELS)
def test_without_one_line_its_rule_names_both_lines(name):
    text = KERNELS[name]
    (rule,) = re.findall("// drop: (.*)", text)
    broken = "\n".join("" if "// drop" in line else line for line in text.splitlines())
    for seed in (0, 1, 2):
        with pytest.raises(DiagnosticError) as caught:
            launch(broken, seed)
        (found,) = caught.value.diagnostics
        assert found.rule_id in (OTHER_WAY.get(rule, {rule}) if seed else {rule}), str(found)
        assert found.location is not None
        assert found.location.file == "k.ptx"
        if "store-not" not in rule:
            (other,) = re.findall(r"is here \(PTX line (\d+)", str(found))
            assert int(other) != found.location.line


@pytest.mark.parametrize(
    ("name", "fence", "is_right"),
    [
        ("WRITTEN_THERE", "fence.proxy.async", True),
        ("WRITTEN_THERE", "fence.proxy.async.shared::cta", False),
        ("STORED", "fence.proxy.async", True),
        ("STORED", "fence.proxy.async.global", False),
    ],
)
def test_a_proxy_fence_is_of_its_space(name, fence, is_right):
    """PTX ISA 9.7.13.4: with a space it orders the accesses of that space alone."""
    text = re.sub(r"fence\.proxy\.async[a-z:.]*;.*", f"{fence};", KERNELS[name])
    if is_right:
        assert launch(text, 0) == []
        return
    with pytest.raises(DiagnosticError) as caught:
        launch(text, 0)
    assert [found.rule_id for found in caught.value.diagnostics] == ["proxy.missing-fence"]


def test_a_loop_of_cas_begins_with_an_ordinary_read():
    """The read may be old: then atom.cas fails, and the loop goes on with what it has read."""
    body = """ld.global.u32 %r3, [%rd0];
L: mov.u32 %r4, %r3; max.u32 %r5, %r4, %r0;
atom.global.cas.b32 %r3, [%rd0], %r4, %r5; setp.ne.u32 %p1, %r3, %r4; @%p1 bra L;"""
    for seed in range(3):
        out, source = np.zeros(512, np.uint32), np.arange(512, dtype=np.uint32)
        run(body, out, source, threads=64, seed=seed)
        assert out[0] == 63


def test_the_last_of_several_atomics_has_seen_what_came_before_each():
    """As the last block of a grid adds up what the others have left, though their atomics run in one step."""
    body = f"""{WORD} and.b32 %r8, %r0, 31; setp.ne.u32 %p1, %r8, 0; @%p1 bra END;
st.global.u32 [%rd8], %r0; fence.acq_rel.gpu;
atom.global.add.u32 %r9, [%rd0+1024], 1; setp.ne.u32 %p1, %r9, 1; @%p1 bra END;
fence.acq_rel.gpu; ld.global.u32 %r9, [%rd0]; ld.global.u32 %r9, [%rd0+128];
END:"""
    for seed in range(4):
        out, source = np.zeros(512, np.uint32), np.arange(512, dtype=np.uint32)
        run(body, out, source, threads=64, seed=seed)
        assert out[256] == 2


READ_AND_LEFT = """@%p0 st.shared.u32 [%r1], 1; {meet}
setp.lt.u32 %p1, %r0, 32; @%p1 bra STAY;
ld.shared.u32 %r9, [%r1]; ret;
STAY: {again}
@%p0 st.shared.u32 [%r1], 2;"""
CLUSTER = "barrier.cluster.arrive; barrier.cluster.wait;"
IN_ANY_ORDER = {"shared.overwritten-early", "shared.missing-barrier"}


@pytest.mark.parametrize(
    ("again", "cluster", "expected"),
    [
        ("bar.sync 0;", 1, set()),
        ("bar.sync 0, 32;", 1, IN_ANY_ORDER),
        ("", 1, IN_ANY_ORDER),
        (CLUSTER, 2, set()),
        ("", 2, IN_ANY_ORDER),
    ],
)
def test_a_barrier_of_all_threads_comes_after_the_end_of_warps_that_have_left(again, cluster, expected):
    """They count threads that are left (PTX ISA 9.7.13.1, .3); one with a number does not wait for them."""
    body = READ_AND_LEFT.format(meet=CLUSTER if cluster > 1 else "bar.sync 0;", again=again)
    for seed in range(4):
        found = {rule for rule, _ in bodies.rules(body, threads=64, cluster=cluster, seed=seed)}
        assert found <= expected and bool(found) == bool(expected)


TILES = "shr.u32 %r3, %r0, 5; mul.lo.u32 %r3, %r3, {stride}; mad.lo.u32 %r3, %r7, 4, %r3; add.u32 %r3, %r3, %r1;"
LANE = "and.b32 %r7, %r0, 31;"


@pytest.mark.parametrize(
    ("stride", "value", "expected"), [(128, "%r0", []), (64, "%r0", ["simulator.race"]), (0, "%r7", [])]
)
@pytest.mark.parametrize("apart", [False, True], ids=["together", "apart"])
def test_warps_whose_tiles_overlap(stride, value, expected, apart):
    """Two warps write to one place by one instruction, in one step or in two: that they write the same is no race."""
    later = "setp.ge.u32 %p2, %r0, 32; @%p2 nanosleep.u32 100;" if apart else ""
    body = f"{LANE}{TILES.format(stride=stride)}{later}\nst.shared.u32 [%r3], {value};"
    for seed in range(3):
        assert [rule for rule, _ in bodies.rules(body, threads=64, seed=seed)] == expected


def test_lanes_of_one_store_write_different_values():
    same, different = (bodies.rules(f"st.shared.u32 [%r1], {value};") for value in ("%r1", "%r0"))
    assert same == []
    assert [rule for rule, _ in different] == ["simulator.race"]


READ_THEN_WRITTEN = "st.shared.u32 [%r4], %r0; bar.sync 0; ld.shared.u32 %r9, [%r5]; {meet} st.shared.u32 [%r4], %r3;"
STORED_FOR_ALL = """st.shared.u32 [%r4], %r0; fence.proxy.async; {meet} @!%p0 bra END;
cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r1], 128;
cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;
END:"""
LANES = {
    "another lane reads": ("st.shared.u32 [%r4], %r0; {meet} ld.shared.u32 %r9, [%r5];", True),
    "another lane writes": ("st.shared.u32 [%r4], %r0; {meet} st.shared.u32 [%r5], %r3;", True),
    "another lane has read": (READ_THEN_WRITTEN, True),
    "the same lane": ("st.shared.u32 [%r4], %r0; {meet} ld.shared.u32 %r9, [%r4]; st.shared.u32 [%r4], %r9;", False),
    "half a word each": ("st.shared.u16 [%r6], %h1; {meet} ld.shared.u16 %h2, [%r6];", False),
    "lane 0 stores for all": (STORED_FOR_ALL, True),
}  # fmt: skip
MEETINGS = ("bar.warp.sync -1;", "bar.sync 0;", "shfl.sync.idx.b32 %r11, %r0, 0, 31, -1;")


@pytest.mark.parametrize("name", LANES)
def test_lanes_of_one_warp(name):
    text, needs_a_meeting = LANES[name]
    own = f"{WORD} xor.b32 %r5, %r4, 4; mad.lo.u32 %r6, %r0, 2, %r1; mov.u16 %h1, 1;\n"
    for seed in range(3):
        for meet in MEETINGS:
            assert bodies.rules(own + text.format(meet=meet), np.zeros(32, np.uint32), seed=seed) == []
        found = bodies.rules(own + text.format(meet=""), np.zeros(32, np.uint32), seed=seed)
        assert [rule for rule, _ in found] == ["simulator.missing-warp-sync"] * needs_a_meeting


def test_an_ordinary_store_to_an_mbarrier():
    with pytest.raises(DiagnosticError) as caught:
        launch("@%p0 mbarrier.init.shared.b64 [%r2], 1; bar.sync 0;\nst.shared.u16 [%r2+6], %h1;", 0)
    assert [one.rule_id for one in caught.value.diagnostics] == ["mbarrier.overwritten"]


def test_a_cta_that_ends_while_its_peer_writes_to_it():
    body = """mov.u32 %r3, %cluster_ctarank; xor.b32 %r4, %r3, 1; mapa.shared::cluster.u32 %r5, %r1, %r4;
setp.eq.u32 %p1, %r3, 0;
barrier.cluster.arrive; barrier.cluster.wait;
@%p1 ret;
mov.u32 %r6, 0; L: add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, 600; @%p2 bra L;
st.shared::cluster.u32 [%r5], %r3;"""
    with pytest.raises(DiagnosticError) as caught:
        run(body, threads=32, cluster=2)
    assert [one.rule_id for one in caught.value.diagnostics] == ["cluster.exit-before-access"]


def test_checks_can_be_switched_off():
    out, source = np.zeros(512, np.uint32), np.arange(512, dtype=np.uint32)
    broken = EXCHANGE.replace("bar.sync 0;", "")
    run(broken, out, source, threads=64, checks=False)
    assert sorted(out[:64].tolist())[-1] < 64


def test_lines_of_the_program_are_told():
    """A `.loc` in front of each of the two accesses: both lines of that file are in the diagnostic."""
    text = EXCHANGE.replace("bar.sync 0;", "").replace("st.shared", ".loc 1 17 3\nst.shared")
    body = text.replace("ld.shared", ".loc 1 23 3\nld.shared")
    ptx = bodies.ptx(body, [np.zeros(64, np.uint32)]) + '\n.file 1 "kernel.py"\n'
    module = Simulator().load(ptx, source="k.ptx")
    with pytest.raises(DiagnosticError) as caught:
        module.launch("k", block=(64,), args=[np.zeros(64, np.uint32)])
    (found,) = caught.value.diagnostics
    places = [found.location, *(place for _, place in found.notes if place is not None)]
    assert [str(place) for place in places] == ["kernel.py:23", "kernel.py:17"]


def test_line_0_is_no_line():
    """Code that a compiler made of several lines has no line of its own: the one of the PTX is told."""
    body = EXCHANGE.replace("bar.sync 0;", "").replace("ld.shared", ".loc 1 0 0\nld.shared")
    ptx = bodies.ptx(body, [np.zeros(64, np.uint32)]) + '\n.file 1 "kernel.py"\n'
    with pytest.raises(DiagnosticError) as caught:
        Simulator().load(ptx, source="k.ptx").launch("k", block=(64,), args=[np.zeros(64, np.uint32)])
    (found,) = caught.value.diagnostics
    assert found.location is not None and found.location.file == "k.ptx" and found.location.line > 0


@pytest.mark.parametrize("adds", [True, False])
def test_an_atomic_is_not_advised_where_there_is_one(adds):
    change = "red.global.add.u32 [%rd0], 1;" if adds else "st.global.u32 [%rd0], 1;"
    body = f"setp.lt.u32 %p1, %r0, 32; @%p1 bra READ; {change} bra END;\nREAD: ld.global.u32 %r9, [%rd0];\nEND:"
    ptx = bodies.ptx(body, [np.zeros(64, np.uint32)])
    with pytest.raises(DiagnosticError) as caught:
        Simulator().load(ptx).launch("k", block=(64,), args=[np.zeros(64, np.uint32)])
    (found,) = caught.value.diagnostics
    assert found.rule_id == "simulator.race" and ("atomic('add'" in found.fix) is not adds


def test_of_two_readers_of_one_slot_the_one_that_stays_has_its_own_bytes():
    """Warps 8 and 12 take the same slot of four as they read two words at once: a write of the other's is no race."""
    shadow, words = Shadow(32, readers=4), np.arange(8)[None, :].reshape(2, 4)
    shadow.read(words, np.array([[8], [12]]), time=5, site=1)
    clocks, row = np.zeros((1, 16), np.int32), np.zeros((1, 1), np.int64)
    assert shadow.unseen_read(words[:1], np.array([[8]]), row, clocks) is None
    found = shadow.unseen_read(words[1:], np.array([[8]]), row, clocks)
    assert found is not None and found.source == 12
