"""What a report counts, in kernels small enough to count by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend.simulator import Report, Simulator, execution
from tests.simulator.calls.bodies import FIRST, ptx

READY = "@%p0 mbarrier.init.shared.b64 [%r2], 1; bar.sync 0;"
WAIT = "W: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], 0;\n@!%p1 bra W;"


def report(body: str, *arguments: Any, threads: int = 32, cluster: int = 1, **options: Any) -> Report:
    module = Simulator().load(ptx(body, arguments), source="k.ptx")
    grid = (cluster, 1, 1)
    return module.launch("k", grid=grid, block=(threads,), cluster=grid, args=arguments, report=True, **options)


@pytest.mark.parametrize(("stride", "taken"), [(4, 2), (8, 4), (12, 2), (128, 64)])
def test_bank_conflicts_are_told_by_line(stride: int, taken: int) -> None:
    found = report(f"mul.lo.u32 %r3, %r0, {stride}; add.u32 %r3, %r3, %r1;\nst.shared.u32 [%r3], %r0;", threads=64)
    use = found.by_line()[FIRST + 1]
    assert (use.shared.requests, use.shared.taken, use.shared.least) == (2, taken, 2)
    assert found.by_line()[FIRST].shared.requests == 0
    assert found.total.shared.excess == taken - 2
    assert found.total.written == {"shared": 256}


@pytest.mark.parametrize(("pitch", "taken"), [(16, 4), (128, 32), (144, 4)])
def test_rows_of_ldmatrix(pitch: int, taken: int) -> None:
    body = f"""shl.b32 %r3, %r0, 2; add.u32 %r3, %r3, %r1; mov.u32 %r5, 0;
L: st.shared.u32 [%r3], %r0; add.u32 %r3, %r3, 128; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 40; @%p1 bra L;
bar.warp.sync -1; mul.lo.u32 %r4, %r0, {pitch}; add.u32 %r4, %r4, %r1;
ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r10, %r11, %r12, %r13}}, [%r4];"""
    use = report(body).by_line()[FIRST + 3]
    assert (use.shared.requests, use.shared.taken, use.read["shared"]) == (1, taken, 512)


def test_scattered_global_accesses() -> None:
    found = report(
        "mul.wide.u32 %rd8, %r0, 64; add.u64 %rd8, %rd8, %rd0;\nld.global.u32 %r3, [%rd8];", np.zeros(512, np.uint32)
    )
    use = found.by_line()[FIRST + 1]
    assert (use.global_.requests, use.global_.taken, use.global_.least) == (1, 32, 4)
    assert found.total.read["global"] == 128


def test_another_ctas_memory_is_distributed() -> None:
    body = """mov.u32 %r3, %cluster_ctarank; xor.b32 %r3, %r3, 1; mapa.shared::cluster.u32 %r4, %r1, %r3;
barrier.cluster.arrive; barrier.cluster.wait;
@%p0 st.shared::cluster.u32 [%r4], %r3;
barrier.cluster.arrive; barrier.cluster.wait;
@%p0 ld.shared.u32 %r5, [%r1];"""
    total = report(body, cluster=2).total
    assert (total.written, total.read) == ({"distributed": 8}, {"shared": 8})


@pytest.mark.parametrize("between", [0, 7, 100, 600])
def test_a_wait_lasts_until_the_copy_has_come(between: int) -> None:
    """A copy takes 512 steps from its issue: the instructions between are not waited for."""
    body = f"""{READY}
@!%p0 bra W;
mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 256;
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd0], 256, [%r2];
{"add.u32 %r5, %r5, 1;" * between}
{WAIT}"""
    found = report(body, np.zeros(64, np.uint32))
    left = 512 - between - 1
    wait = found.waits.get("mbarrier")
    if left <= 0:
        assert wait is None
        return
    # The branch that ends the block of W's predecessors may take a step; both lanes' groups of the warp wait once.
    assert wait is not None and abs(wait.longest - left) <= 2
    engine = found.engines["cp.async.bulk"]
    assert (engine.operations, engine.in_flight, engine.most) == (1, 512, 1)
    assert (engine.read, engine.written) == ({"global": 256}, {"shared": 256})
    assert engine.in_flight - engine.issuing == wait.longest


def test_a_barrier_is_waited_for_until_the_last_comes() -> None:
    body = f"""setp.lt.u32 %p2, %r0, 32; @%p2 bra B;
{"add.u32 %r5, %r5, 1;" * 50}
B: bar.sync 0;"""
    found = report(body, threads=64)
    wait = found.waits["barrier"]
    assert wait.waits == 1 and 50 <= wait.waited <= 52


def test_classes_and_lines_count_threads() -> None:
    found = report("add.u32 %r3, %r0, 1;\nadd.f32 %f1, %f0, %f0;\n@%p0 cvt.rn.f32.u32 %f2, %r3;")
    assert found.classes["floating point"] == {"add": 32}
    assert found.instructions["add"] == 64
    assert found.classes["conversions"] == {"cvt": 32}
    assert [found.by_line()[FIRST + line].threads for line in range(3)] == [32, 32, 32]
    with pytest.raises(KeyError):
        found.by_line()[1]


def test_lines_are_those_of_loc() -> None:
    text = ptx(".loc 1 7 0\nadd.u32 %r3, %r0, 1;\n.loc 1 9 0\nadd.u32 %r3, %r3, 1; add.u32 %r3, %r3, 1;")
    module = Simulator().load(text.replace(".visible", '.file 1 "mine.py"\n.visible'))
    found = {(place.file, place.line): use.threads for place, use in module.launch("k", block=(32,)).by_line()}
    assert (found["mine.py", 7], found["mine.py", 9]) == (32, 32 * 2 + 32)


def test_the_text_is_a_screenful() -> None:
    found = report("mul.lo.u32 %r3, %r0, 128; add.u32 %r3, %r3, %r1; st.shared.u32 [%r3], %r0; bar.sync 0;", threads=64)
    lines = str(found).splitlines()
    assert lines[0] == "k: 1x1x1 CTAs of 64x1x1 threads"
    assert "2 requests of warps, 64 passes over the banks, 62 of them by conflicts" in str(found)
    assert len(lines) < 50 and max(map(len, lines)) <= 120


def test_nothing_watches_a_run_that_is_not_asked_for_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("Recorder", "RecordingScheduler"):
        monkeypatch.setattr(execution, name, None)
    module = Simulator().load(ptx("st.shared.u32 [%r1], %r0;"))
    found = module.launch("k", block=(32,), checks=False)
    assert not found.is_whole and found.instructions["st"] == 32
    lines = found.by_line()
    for wanted in (lambda: found.total, lambda: found.waits, lambda: lines[FIRST].shared):
        with pytest.raises(nvb.DiagnosticError, match=r"simulator\.report.*has not been kept"):
            wanted()
    assert lines[FIRST].threads == 32 and "conflicts" not in str(lines)


@pytest.mark.parametrize("seed", range(4))
def test_time_does_not_depend_on_the_order_of_the_simulator(seed: int) -> None:
    body = """mov.b64 %rd9, 0x0000004000010040; mov.u32 %r3, %r0; bar.sync 0;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd9, %rd9, 0, 1, 1, 0, 0;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f4, %f5, %f6, %f7}, %rd9, %rd9, 0, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;"""
    found = report(body, threads=128, seed=seed, checks=False)
    # The second comes after the first, 64 steps each; four instructions are the first one's, and those up to the wait.
    assert found.waits["wgmma"].longest == 2 * 64 - 4
    assert found.engines["wgmma"].operations == 2
