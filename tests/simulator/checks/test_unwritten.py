"""A read of memory that nothing wrote is reported where its value is used, and only there."""

from __future__ import annotations

import re

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f32, i32
from nvbackend.simulator import Simulator
from tests.simulator.calls.bodies import ptx, rules, run
from tests.support.runtime import rules as refused

STAGES = 3
UNWRITTEN = "simulator.unwritten"
PLACE = "shl.b32 %r3, %r0, 4; add.u32 %r3, %r3, %r1; mul.wide.u32 %rd9, %r0, 4; add.u64 %rd8, %rd9, %rd0;"
LOAD = "ld.shared.u32 %r4, [%r3];"
LOADS = {
    "word": LOAD,
    "generic": "mov.u64 %rd1, buf; cvta.shared.u64 %rd1, %rd1; cvt.u64.u32 %rd2, %r0; add.u64 %rd1, %rd1, %rd2;"
    "and.b64 %rd1, %rd1, -16; ld.u32 %r4, [%rd1];",
    "vector": "ld.shared.v2.u32 {%r5, %r4}, [%r3];",
    "matrix": "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r4}, [%r3];",
}
UNUSED = {
    "nothing": "",
    "computed": "add.u32 %r5, %r4, 1; setp.eq.u32 %p1, %r5, 0;",
    "written again": "mov.u32 %r4, 3; st.global.u32 [%rd8], %r4;",
    "not chosen": "setp.ge.u32 %p1, %r0, 99; selp.u32 %r5, %r4, 3, %p1; st.global.u32 [%rd8], %r5;",
    "not stored": "setp.ge.u32 %p1, %r0, 99; @%p1 st.global.u32 [%rd8], %r4;",
    "another copy of it": "mov.u32 %r5, %r4; mov.u32 %r5, 3; st.global.u32 [%rd8], %r5;",
}
USED = {
    "stored": "st.global.u32 [%rd8], %r4;",
    "stored in shared memory": "st.shared.u32 [%r3+512], %r4;",
    "computed with": "mad.lo.u32 %r5, %r0, %r4, 1; st.global.u32 [%rd8], %r5;",
    "carried": "add.cc.u32 %r5, %r4, 1; addc.u32 %r6, 0, 0; st.global.u32 [%rd8], %r6;",
    "packed": "mov.b64 %rd3, {%r0, %r4}; mov.b64 {%r6, %r7}, %rd3; st.global.u32 [%rd8], %r7;",
    "chosen": "setp.lt.u32 %p1, %r0, 99; selp.u32 %r5, %r4, 3, %p1; st.global.u32 [%rd8], %r5;",
    "chooses": "setp.eq.u32 %p1, %r4, 3; selp.u32 %r5, 2, 3, %p1; st.global.u32 [%rd8], %r5;",
    "from another lane": "shfl.sync.bfly.b32 %r5, %r4, 1, 31, -1; st.global.u32 [%rd8], %r5;",
    "in a branch": "setp.eq.u32 %p1, %r4, 3; @%p1 bra OUT; st.global.u32 [%rd8], 1; OUT:",
    "as a guard": "setp.eq.u32 %p1, %r4, 3; @%p1 st.global.u32 [%rd8], 1;",
    "as an address": "cvt.u64.u32 %rd3, %r4; add.u64 %rd3, %rd3, %rd0; ld.global.u32 %r5, [%rd3];",
    "multiplied": "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r4, %r4, %r4, %r4}, "
    "{%r0, %r0}, {%f0, %f1, %f2, %f3};",
    "added to": "red.global.add.u32 [%rd8], %r4;",
}


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("rest", UNUSED)
def test_what_nothing_uses_may_be_unwritten(load, rest):
    assert rules(PLACE + LOADS[load] + UNUSED[rest], np.zeros(64, np.uint32)) == []


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("rest", USED)
def test_what_something_uses_must_be_written(load, rest):
    assert [rule for rule, _ in rules(PLACE + LOADS[load] + USED[rest], np.zeros(64, np.uint32))] == [UNWRITTEN]


def test_only_the_lanes_that_read_it_hold_it():
    body = f"{PLACE}mov.u32 %r4, 3; setp.lt.u32 %p1, %r0, 8; @%p1 {LOAD} {{}} st.global.u32 [%rd8], %r4;"
    assert rules(body.format("@!%p1"), np.zeros(64, np.uint32)) == []
    assert [rule for rule, _ in rules(body.format("@%p1"), np.zeros(64, np.uint32))] == [UNWRITTEN]


def test_what_other_lanes_give_counts():
    body = f"{PLACE}@%p0 {LOAD} shfl.sync.idx.b32 %r5, %r4, 0, 31, -1; @!%p0 st.global.u32 [%rd8], %r5;"
    assert [rule for rule, _ in rules(body, np.zeros(64, np.uint32))] == [UNWRITTEN]


def test_both_places_are_named():
    body = f"{PLACE}\n{LOAD}\nadd.u32 %r5, %r4, 1;\nst.global.u32 [%rd8], %r5;"
    with pytest.raises(nvb.DiagnosticError, match=re.escape("its value is used here (PTX line 14: st.global")):
        run(body, np.zeros(64, np.uint32))


@nvb.kernel("sm_80", threads=64)
def loaded_a_step_ahead(k, x: nvb.Pointer[f32], y: nvb.Pointer[f32], steps: i32, *, late: bool = False):
    """Sums of squares. What a step needs is loaded in the step before it, after the last one for nothing."""
    tile, thread = k.shared(f32, STAGES * 64, name="tile"), k.thread_id()
    place, other = tile + thread, 63 - thread
    for step in range(STAGES - 1):
        with k.if_(step < steps):
            k.cp_async.copy(place + step * 64, x + (thread + step * 64), 4)
        k.cp_async.commit_group()
    k.cp_async.wait_group(STAGES - 2)
    k.barrier.sync()
    fragment, total = k.var(tile[other]), k.var(0.0, f32)
    with k.range(steps) as step:
        now, ahead = fragment.value, step + (STAGES - 1)
        with k.if_(ahead < steps):
            k.cp_async.copy(place + ahead % STAGES * 64, x + (thread + ahead * 64), 4)
        k.cp_async.commit_group()
        k.cp_async.wait_group(STAGES - 2)
        k.barrier.sync()
        fragment.set(tile[(step + 1) % STAGES * 64 + other])
        total += (fragment.value if late else now) * now
    y[thread] = total.value


@pytest.mark.parametrize("steps", [1, 2, 3, 5])
def test_the_fragment_after_the_last_step_may_be_unwritten(steps):
    x, y = np.arange(64 * steps, dtype=np.float32) % 7, np.zeros(64, np.float32)
    loaded = nvb.runtime.load(loaded_a_step_ahead.compile(), device="simulator")
    loaded.launch(1, x, y, steps)
    assert np.array_equal(y, (x.reshape(steps, 64) ** 2).sum(axis=0)[::-1])


@pytest.mark.parametrize("steps", [1, 2])
def test_the_product_of_it_must_not(steps):
    compiled = loaded_a_step_ahead.compile(late=True, check=False, assemble=False)
    loaded = nvb.runtime.load(compiled, device="simulator")
    x, y = np.ones(64 * steps, np.float32), np.zeros(64, np.float32)
    assert refused(lambda: loaded.launch(1, x, y, steps)) == [UNWRITTEN]


@pytest.mark.parametrize(("rest", "found"), [(UNUSED["computed"], []), (USED["stored"], [UNWRITTEN])])
def test_steps_of_one_instruction_see_it_too(rest, found):
    given = [np.zeros(64, np.uint32)]
    module = Simulator().load(ptx(PLACE + LOAD + rest, given))
    assert refused(module.start("k", grid=(1,), block=(32,), args=given).finish) == found
