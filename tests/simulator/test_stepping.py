"""Launches that are stepped through: where they are, and what is in their registers, memory and barriers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nvbackend import DiagnosticError
from nvbackend.simulator import Simulator, SteppedLaunch
from tests.simulator.calls.bodies import FIRST, ptx

SUMS = """mul.lo.u32 %r3, %r0, %r0;
shl.b32 %r4, %r0, 2; add.u32 %r4, %r4, %r1;
st.shared.u32 [%r4], %r3;
@%p0 mbarrier.init.shared.b64 [%r2], 3;
bar.sync 0;
xor.b32 %r5, %r4, 4; ld.shared.u32 %r6, [%r5];
mul.wide.u32 %rd8, %r0, 4; add.u64 %rd8, %rd8, %rd0; st.global.u32 [%rd8], %r6;"""


def started(body: str = SUMS, *arguments: Any, threads: int = 64, ctas: int = 1) -> SteppedLaunch:
    given = arguments or (np.zeros(threads, np.uint32),)
    module = Simulator().load(ptx(body, given), source="k.ptx")
    return module.start("k", grid=(ctas,), block=(threads,), args=given)


def test_registers_are_those_of_the_warp_before_the_instruction() -> None:
    launch = started()
    assert launch.run_until(ptx_line=FIRST)
    assert (launch.registers(warp=1)["%r3"] == 0).all()
    launch.step()
    assert launch.registers(warp=1)["%r3"].tolist() == [thread**2 for thread in range(32, 64)]
    assert launch.registers()["%p0"].tolist() == [True] + [False] * 31


def test_shared_memory_and_barriers() -> None:
    launch = started()
    assert launch.barriers() == []
    assert launch.run_until(ptx_line=FIRST + 4)
    assert launch.shared("buf", 3, dtype=np.uint32).tolist() == [0, 1, 4]
    assert launch.shared(0x400, 2, dtype=np.uint32).tolist() == [0, 1]
    assert len(launch.shared("bar")) == 32
    (mbarrier,) = launch.barriers()
    assert mbarrier.startswith("bar (shared address 0x2400): phase 0: 0 of 3")
    launch.step()
    assert launch.barriers()[1].startswith("barrier 0 of CTA 0")


def test_the_end_gives_a_report_and_the_arrays() -> None:
    out = np.zeros(64, np.uint32)
    launch = started(SUMS, out)
    report = launch.finish()
    assert out.tolist() == [(thread ^ 1) ** 2 for thread in range(64)]
    assert launch.has_ended and str(launch) == "k has ended"
    assert report.instructions["mul"] == 2 * 64 and report.instructions["ret"] == 64
    with pytest.raises(DiagnosticError) as raised:
        launch.step()
    assert raised.value.diagnostics[0].rule_id == "simulator.step"


def test_steps_run_every_cta_of_every_wave() -> None:
    out = np.zeros(1024, np.uint32)
    started("atom.global.add.u32 %r3, [%rd0], 1;", out, threads=1024, ctas=20).finish()
    assert out[0] == 20 * 1024


def test_it_says_who_waits() -> None:
    body = f"setp.lt.u32 %p2, %r0, 32; @%p2 bra B;\n{'add.u32 %r5, %r5, 1;' * 4}\nB: bar.sync 0;"
    launch = started(body)
    assert launch.run_until(ptx_line=FIRST + 1)
    assert launch.threads.tolist() == list(range(32, 64))
    assert launch.site.text.startswith("add.u32 %r5")
    lines = str(launch).splitlines()
    assert lines[0].startswith("thread 32 of CTA 0 and 31 more at k.ptx:")


def test_a_loop_that_spins_lets_the_others_run() -> None:
    body = """setp.lt.u32 %p2, %r0, 32; @!%p2 bra SET;
L: ld.relaxed.gpu.global.u32 %r3, [%rd0]; setp.eq.u32 %p1, %r3, 0; @%p1 bra L;
bra END;
SET: st.relaxed.gpu.global.u32 [%rd0], 1;
END:"""
    assert started(body, np.zeros(4, np.uint32)).finish().instructions["st"] == 32


def test_a_deadlock_is_a_deadlock() -> None:
    body = """@%p0 mbarrier.init.shared.b64 [%r2], 1; bar.sync 0;
W: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], 0; @!%p1 bra W;"""
    with pytest.raises(DiagnosticError) as raised:
        started(body).finish()
    assert raised.value.diagnostics[0].rule_id == "simulator.deadlock"


@pytest.mark.parametrize(("start", "count"), [("nothing", 1), (0, 1), ("buf", 100_000)])
def test_memory_that_is_not_there(start: str | int, count: int) -> None:
    with pytest.raises(DiagnosticError) as raised:
        started().shared(start, count)
    assert raised.value.diagnostics[0].rule_id == "simulator.step"


@pytest.mark.parametrize(
    "ask", [SteppedLaunch.registers, SteppedLaunch.barriers, lambda one, cta: one.shared("buf", cta=cta)]
)
def test_a_cta_that_does_not_run(ask: Any) -> None:
    for number in (-1, 2):
        with pytest.raises(DiagnosticError, match=f"there is no CTA {number}, only 0 to 1"):
            ask(started(ctas=2), cta=number)
    ask(started(ctas=2), cta=1)
    with pytest.raises(DiagnosticError, match="there is no CTA 1, only CTA 0"):
        ask(started(), cta=1)


def test_a_warp_that_a_cta_does_not_have() -> None:
    with pytest.raises(DiagnosticError, match="there is no warp 2, only 0 to 1"):
        started().registers(warp=2)


def test_places_to_run_to() -> None:
    for given in ({"line": "4"}, {"ptx_line": 2.5}, {"cta": "0"}):
        launch = started()
        with pytest.raises(DiagnosticError, match=rf"{next(iter(given))} must be int \| None") as raised:
            launch.run_until(**given)
        assert raised.value.diagnostics[0].rule_id == "call.argument"
        assert not launch.has_ended
    with pytest.raises(DiagnosticError, match="there is no CTA 1, only CTA 0"):
        started().run_until(cta=1)
    assert started().run_until(ptx_line=np.int64(FIRST))


def test_steps_lead_on() -> None:
    with pytest.raises(DiagnosticError, match="count=-1 leads back"):
        started().step(-1)
    assert started().step(0)
