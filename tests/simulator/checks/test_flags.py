"""Flags between CTAs: which orders of the two sides let the later one read the data, by the PTX memory model.

The expectations are the release and acquire patterns of PTX ISA 8.7, written down here by hand.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend.diagnostics import DiagnosticError
from nvbackend.simulator import Simulator

TEXT = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 data, .param .u64 flag)
{{
.reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .pred %p<4>;
ld.param.u64 %rd0, [data]; ld.param.u64 %rd1, [flag]; mov.u32 %r0, %ctaid.x; mov.u32 %r1, %tid.x;
setp.eq.u32 %p0, %r0, {reader}; @%p0 bra READ;
st.global.u32 [%rd0], 7;
{store}
bra END;
READ:
W: {load} setp.ne.u32 %p1, %r2, 1; @%p1 bra W; {after}
ld.global.u32 %r3, [%rd0];
st.global.u32 [%rd0+64], %r3;
END: ret;
}}
"""
RELEASES = {
    "st.release.gpu.global.u32 [%rd1], 1;": True,
    "st.release.sys.global.u32 [%rd1], 1;": True,
    "fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%rd1], 1;": True,
    "fence.sc.gpu; st.volatile.global.u32 [%rd1], 1;": True,
    "membar.gl; red.relaxed.gpu.global.add.u32 [%rd1], 1;": True,
    "red.release.gpu.global.add.u32 [%rd1], 1;": True,
    "atom.acq_rel.gpu.global.exch.b32 %r4, [%rd1], 1;": True,
    "st.relaxed.gpu.global.u32 [%rd1], 1;": False,
    "st.volatile.global.u32 [%rd1], 1;": False,
    "atom.relaxed.gpu.global.add.u32 %r4, [%rd1], 1;": False,
    "atom.acquire.gpu.global.add.u32 %r4, [%rd1], 1;": False,
    "st.release.cta.global.u32 [%rd1], 1;": False,
    "st.relaxed.gpu.global.u32 [%rd1], 1; fence.acq_rel.gpu;": False,
    "fence.acq_rel.cta; st.relaxed.gpu.global.u32 [%rd1], 1;": False,
    "membar.cta; red.relaxed.gpu.global.add.u32 [%rd1], 1;": False,
    "fence.sc.cluster; st.relaxed.sys.global.u32 [%rd1], 1;": False,
    "fence.sc.gpu; fence.acq_rel.cta; st.relaxed.gpu.global.u32 [%rd1], 1;": True,
}
ACQUIRES = {
    ("ld.acquire.gpu.global.u32 %r2, [%rd1];", ""): True,
    ("ld.relaxed.gpu.global.u32 %r2, [%rd1];", "fence.acq_rel.gpu;"): True,
    ("ld.volatile.global.u32 %r2, [%rd1];", "membar.gl;"): True,
    ("atom.acquire.gpu.global.or.b32 %r2, [%rd1], 0;", ""): True,
    ("ld.relaxed.gpu.global.u32 %r2, [%rd1];", ""): False,
    ("ld.volatile.global.u32 %r2, [%rd1];", ""): False,
    ("ld.acquire.cta.global.u32 %r2, [%rd1];", ""): False,
    ("fence.acq_rel.gpu; ld.relaxed.gpu.global.u32 %r2, [%rd1];", ""): None,
    ("ld.relaxed.gpu.global.u32 %r2, [%rd1];", "fence.acq_rel.cta;"): False,
    ("ld.relaxed.gpu.global.u32 %r2, [%rd1];", "membar.cta; membar.gl;"): True,
}
"""None: a fence before each round is one after the round before, which saw nothing."""


def _run(store: str, load: str, after: str) -> str | None:
    return _launched(TEXT.format(store=store, load=load, after=after, reader=1), 2)


def _launched(text: str, grid: int, threads: int = 1, cluster: int = 1) -> str | None:
    """The rule that a run draws; None where the data is read."""
    data, flag = np.zeros(32, np.uint32), np.zeros(16, np.uint32)
    shape = {"grid": (grid, 1, 1), "block": (threads, 1, 1), "cluster": (cluster, 1, 1)}
    try:
        Simulator().load(text).launch("k", **shape, args=[data, flag])
    except DiagnosticError as error:
        return error.diagnostics[0].rule.id
    assert data[16] == 7
    return None


@pytest.mark.parametrize("store", RELEASES)
def test_a_flag_orders_what_its_two_sides_release_and_acquire(store: str) -> None:
    for (load, after), acquires in ACQUIRES.items():
        wanted = None if RELEASES[store] and acquires else "simulator.flag-order"
        if ".cta." in store + load:  # the flag itself is accessed by a thread that the scope leaves out
            wanted = "simulator.scope"
        assert _run(store, load, after) == wanted, (store, load, after)


@pytest.mark.parametrize("flag", ["cta", "cluster", "gpu"])
@pytest.mark.parametrize("scope", ["cta", "cluster", "gpu"])
@pytest.mark.parametrize("between", ["warps of a CTA", "CTAs of a cluster", "clusters"])
def test_a_fence_orders_for_the_threads_in_its_scope(between: str, scope: str, flag: str) -> None:
    store, load = f"fence.acq_rel.{scope}; st.relaxed.{flag}.global.u32 [%rd1], 1;", f"ld.relaxed.{flag}.global.u32"
    text = TEXT.format(store=store, load=f"{load} %r2, [%rd1];", after=f"fence.acq_rel.{scope};", reader=1)
    scopes = ["cta", "cluster", "gpu"]
    needed = ["warps of a CTA", "CTAs of a cluster", "clusters"].index(between)
    wanted = None if scopes.index(scope) >= needed else "simulator.flag-order"
    if scopes.index(flag) < needed:
        wanted = "simulator.scope"
    if needed == 0:
        text = text.replace("mov.u32 %r0, %ctaid.x;", "mov.u32 %r0, %tid.x; shr.b32 %r0, %r0, 5;")
        assert _launched(text, 1, threads=64) == wanted
    else:
        assert _launched(text, 2, cluster=2 if needed == 1 else 1) == wanted


def test_weak_flags_race_themselves() -> None:
    for store, load in itertools.product(("st.global.u32 [%rd1], 1;", "st.release.gpu.global.u32 [%rd1], 1;"), (0, 1)):
        weak = ("ld.global.u32 %r2, [%rd1];", "ld.acquire.gpu.global.u32 %r2, [%rd1];")[load]
        strong = load + ("release" in store)
        assert _run(store, weak, "") == ("simulator.race", "simulator.flag-weak", None)[strong]


FENCE = "fence.acq_rel.gpu;"
UNWAITED = "simulator.flag-unwaited"


@pytest.mark.parametrize("apart", [4, 8, 12, 32])
@pytest.mark.parametrize(
    ("before", "load", "between", "store", "wanted"),
    [
        ("", "acquire", "", "release", None),
        ("", "relaxed", FENCE, "relaxed", None),
        (FENCE, "relaxed", FENCE, "relaxed", None),
        ("", "relaxed", FENCE, "release", None),
        ("", "acquire", "", "relaxed", UNWAITED),
        (FENCE, "acquire", "", "relaxed", UNWAITED),
        (FENCE, "relaxed", "", "relaxed", UNWAITED),
        (FENCE, "relaxed", "", "release", UNWAITED),
    ],
)
def test_what_is_handed_on_is_seen(
    before: str, load: str, between: str, store: str, wanted: str | None, apart: int
) -> None:
    """CTA 0 stores data, CTA 1 hands its flag on, CTA 2 reads: causality is transitive.

    A fence before CTA 1 reads the first flag orders nothing that it learns from it.
    """
    hand_over = (
        f"READ: setp.eq.u32 %p0, %r0, 2; @%p0 bra LAST; {before} "
        f"V: ld.{load}.gpu.global.u32 %r2, [%rd1]; setp.ne.u32 %p1, %r2, 1; @%p1 bra V; {between} "
        f"st.{store}.gpu.global.u32 [%rd1+{apart}], 1; bra END;\nLAST:"
    )
    text = TEXT.replace("setp.eq.u32 %p0, %r0, {reader}", "setp.ne.u32 %p0, %r0, 0").replace("READ:", hand_over)
    first = "st.release.gpu.global.u32 [%rd1], 1;"
    text = text.format(store=first, load=f"ld.acquire.gpu.global.u32 %r2, [%rd1+{apart}];", after="")
    assert _launched(text, 3) == wanted


@pytest.mark.parametrize("width", ["u32", "u64"])
@pytest.mark.parametrize("place", [0, 1, 2, 3, 5])
def test_a_flag_is_its_own_words(place: int, width: str) -> None:
    """CTA 0 sets one flag of an array, CTA 1 the flag `place`, which it alone has data for; CTA 2 waits for the first.

    Flags of one sector are flags of their own.
    """
    size = {"u32": 4, "u64": 8}[width]
    register = {"u32": "%r2", "u64": "%rd3"}[width]

    def store(at: int) -> str:
        return f"st.release.gpu.global.{width} [%rd1+{at * size}], 1;"

    other = f"READ: setp.eq.u32 %p0, %r0, 2; @%p0 bra LAST; st.global.u32 [%rd0], 7; {store(place)} bra END;\nLAST:"
    text = TEXT.replace("setp.eq.u32 %p0, %r0, {reader}", "setp.ne.u32 %p0, %r0, 0").replace("READ:", other)
    text = text.replace("st.global.u32 [%rd0], 7;\n{store}", "{store}")
    load = f"ld.acquire.gpu.global.{width} {register}, [%rd1];"
    load += f" cvt.u32.u64 %r2, {register};" if width == "u64" else ""
    assert _launched(text.format(store=store(0), load=load, after=""), 3) == (UNWAITED if place else None)


def add(k, out, *, scope, place, first):
    """Every thread of the CTAs from `first` on adds to the element at `place`."""
    with k.if_(k.block_id() >= first):
        k.atomic.reduce(out + place(k), "add", 1, scope=scope)


@pytest.mark.parametrize("target", ["sm_90a"])
@pytest.mark.parametrize(
    ("cluster", "scope", "place", "first", "wrong"),
    [
        (1, "cta", lambda k: 0, 0, True),
        (1, "cta", lambda k: k.thread_id(), 0, True),
        (1, "cta", lambda k: k.block_id(), 0, False),
        (1, "cta", lambda k: 0, 3, False),  # one CTA comes
        (1, "gpu", lambda k: 0, 0, False),
        (1, "cluster", lambda k: 0, 0, True),
        (2, "cluster", lambda k: k.block_id() // 2, 0, False),
        (2, "cluster", lambda k: 0, 0, True),
        (2, "cta", lambda k: k.block_id() // 2, 0, True),
    ],
)
def test_atomics_reach_the_threads_of_their_scope(target, cluster, scope, place, first, wrong):
    @nvb.kernel(target, threads=64, cluster=cluster)
    def kernel(k, out: nvb.Pointer[nvb.u32]):
        add(k, out, scope=scope, place=place, first=first)

    loaded, out = nvb.runtime.load(kernel.compile(check=False), device="simulator"), np.zeros(64, np.uint32)
    if not wrong:
        loaded.launch(4, out)
        assert out.sum() == 64 * (4 - first)
        return
    with pytest.raises(nvb.DiagnosticError) as error:
        loaded.launch(4, out)
    assert [each.rule_id for each in error.value.diagnostics] == ["simulator.scope"]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("cluster", "stored", "loaded", "wrong"),
    [
        (1, "gpu", "cta", True),
        (1, "cta", "gpu", True),
        (1, "cluster", "gpu", True),
        (1, "gpu", "gpu", False),
        (1, "sys", "gpu", False),
        (2, "cluster", "cluster", False),
        (2, "cluster", "cta", True),
    ],
)
def test_a_word_is_strong_among_the_threads_of_both_scopes(seed, cluster, stored, loaded, wrong):
    """The word is the data: nothing else is read after it."""

    @nvb.kernel("sm_90a", threads=32, cluster=cluster)
    def polled(k, flag: nvb.Pointer[nvb.u32], out: nvb.Pointer[nvb.u32]):
        with k.if_(k.block_id() == 0):
            flag.store(7, order="release", scope=stored, where=k.thread_id() == 0)
        with k.else_():
            word = k.var(0, nvb.u32)
            with k.loop():
                word.set(flag.load(order="acquire", scope=loaded)[0])
                k.break_if(word != 0)
            out[k.thread_id()] = word

    flag, out = np.zeros(1, np.uint32), np.zeros(32, np.uint32)
    module = nvb.runtime.load(polled.compile(check=False, assemble=False), device="simulator", seed=seed)
    if wrong:
        with pytest.raises(nvb.DiagnosticError, match=r"simulator\.scope"):
            module.launch(2, flag, out)
    else:
        module.launch(2, flag, out)
        assert (out == 7).all()


@pytest.mark.parametrize("apart", [True, False])
def test_atomics_of_two_steps_that_a_flag_orders(apart):
    """The second CTA adds in its own scope what the first has added in its own; only a flag orders them."""

    @nvb.kernel("sm_90a", threads=32)
    def turns(k, out: nvb.Pointer[nvb.u32], flag: nvb.Pointer[nvb.u32]):
        with k.if_(k.block_id() == 0):
            k.atomic.reduce(out, "add", 1, scope="cta")
            k.warp.sync()
            flag.store(1, order="release", scope="gpu", where=k.thread_id() == 0)
        with k.else_():
            if not apart:
                with k.loop():
                    k.break_if(flag.load(order="acquire", scope="gpu")[0] == 1)
            k.atomic.reduce(out, "add", 1, scope="cta")

    loaded = nvb.runtime.load(turns.compile(check=False), device="simulator")
    out, flag = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    if apart:
        with pytest.raises(nvb.DiagnosticError, match=r"simulator\.scope"):
            loaded.launch(2, out, flag)
    else:
        loaded.launch(2, out, flag)
        assert out[0] == 64


BETWEEN_WARPS = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 data, .param .u64 flag)
{{
.reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .pred %p<4>;
ld.param.u64 %rd0, [data]; ld.param.u64 %rd1, [flag]; mov.u32 %r0, %ctaid.x; mov.u32 %r1, %tid.x;
setp.ne.u32 %p1, %r1, 0; setp.ne.u32 %p2, %r1, 32;
setp.eq.u32 %p0, %r0, 1; @%p0 bra READ;
@%p2 bra WRITTEN; st.global.u32 [%rd0], 7; WRITTEN:
{before} @%p1 bra END;
{release} bra END;
READ: @%p1 bra MEET;
W: {acquire} setp.ne.u32 %p3, %r2, 1; @%p3 bra W; {fence}
MEET: {after} @%p2 bra END;
ld.global.u32 %r3, [%rd0]; st.global.u32 [%rd0+64], %r3;
END: ret;
}}
"""
MEET = "bar.sync 0;"


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        ({}, None),
        ({"before": ""}, "simulator.flag-barrier"),
        ({"after": ""}, "simulator.flag-barrier"),
        ({"release": "st.relaxed.gpu.global.u32 [%rd1], 1;"}, "simulator.flag-order"),
        ({"fence": ""}, "simulator.flag-order"),
    ],
)
def test_one_warp_flags_for_the_others_where_a_barrier_is_between(changed: dict[str, str], wanted: str | None) -> None:
    parts = {
        "before": MEET,
        "release": f"{FENCE} st.relaxed.gpu.global.u32 [%rd1], 1;",
        "acquire": "ld.relaxed.gpu.global.u32 %r2, [%rd1];",
        "fence": FENCE,
        "after": MEET,
    }
    assert _launched(BETWEEN_WARPS.format(**parts | changed), 2, 64) == wanted


@pytest.mark.parametrize(
    ("release", "acquire", "barrier", "wanted"),
    [
        ("release", "acquire", True, None),
        ("relaxed", "acquire", True, r"simulator\.flag-order.* st\.relaxed\.gpu.*it releases nothing"),
        ("release", "relaxed", True, r"simulator\.flag-order.* ld\.relaxed\.gpu.*it acquires nothing"),
        ("release", "acquire", False, r"simulator\.flag-barrier.*no barrier orders the access of the other warp"),
    ],
)
def test_of_the_flags_between_two_blocks_the_one_of_the_data_is_judged(release, acquire, barrier, wanted):
    """Two pairs of warps hand over, each by a flag of its own and a barrier of its own, twice."""

    @nvb.kernel("sm_90a", threads=128)
    def pairs(k, data: nvb.Pointer[nvb.u32], flags: nvb.Pointer[nvb.u32], out: nvb.Pointer[nvb.u32]):
        pair, thread = k.warp_id() // 2, k.thread_id() % 64
        for turn in range(2):
            mine, there = data + turn * 128 + pair * 64, flags + turn * 2 + pair
            with k.if_(k.block_id() == 0):
                mine[thread] = (thread + turn).to(nvb.u32)
                if barrier:
                    k.barrier.sync(1 + pair, 64)
                with k.if_(thread == 0):
                    there.store(1, order=release, scope="gpu")
            with k.else_():
                with k.if_(thread == 0), k.loop():
                    k.break_if(there.load(order=acquire, scope="gpu")[0] == 1)
                k.barrier.sync(1 + pair, 64)
                out[turn * 128 + k.thread_id()] = mine[63 - thread]

    loaded = nvb.runtime.load(pairs.compile(check=False), device="simulator")
    arrays = [np.zeros(size, np.uint32) for size in (256, 4, 256)]
    if wanted is None:
        loaded.launch(2, *arrays)
        assert (arrays[2] == np.add.outer([0, 0, 1, 1], np.arange(64)[::-1]).ravel()).all()
        return
    with pytest.raises(nvb.DiagnosticError, match=wanted):
        loaded.launch(2, *arrays)


LOCKED = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 data, .param .u64 lock) {{
.reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .pred %p<4>;
ld.param.u64 %rd0, [data]; ld.param.u64 %rd1, [lock];
L: atom.{take}.gpu.global.cas.b32 %r2, [%rd1], 0, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra L; {after}
ld.global.u32 %r3, [%rd0]; add.u32 %r3, %r3, 1; st.global.u32 [%rd0], %r3;
{before} atom.{leave}.gpu.global.exch.b32 %r4, [%rd1], 0;
ret;
}}
"""


@pytest.mark.parametrize(
    ("take", "after", "before", "leave", "named"),
    [
        ("acquire", "", "", "release", None),
        ("relaxed", FENCE, FENCE, "relaxed", None),
        ("relaxed", FENCE, "", "release", None),
        ("acquire", "", FENCE, "relaxed", None),
        ("relaxed", "", FENCE, "relaxed", "cas"),
        ("relaxed", "", "", "release", "cas"),
        ("relaxed", FENCE, "", "relaxed", "exch"),
        ("acquire", "", "", "relaxed", "exch"),
    ],
)
@pytest.mark.parametrize("grid", [2, 5])
def test_the_side_of_a_lock_that_orders_nothing_is_named(take, after, before, leave, named, grid):
    """A compare-and-swap that fails writes nothing: it is no flag, and no reason why the others are none."""
    text = LOCKED.format(take=take, after=after, before=before, leave=leave)
    data, lock = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    try:
        Simulator().load(text).launch("k", grid=(grid, 1, 1), block=(1, 1, 1), args=[data, lock])
    except DiagnosticError as error:
        (found,) = error.diagnostics
        flag = found.message.rpartition("PTX line")[2]
        assert (found.rule_id, f".{named}.b32" in flag) == ("simulator.flag-order", True), found.message
        assert ("acquires nothing" in found.message) == (named == "cas")
    else:
        assert named is None
        assert data[0] == grid
