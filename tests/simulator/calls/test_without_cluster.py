"""Four instructions stop a kernel that is launched without a cluster, as they do on the hardware."""

from __future__ import annotations

import re

import numpy as np
import pytest

from nvbackend import DiagnosticError
from nvbackend.simulator import Simulator
from tests.simulator.calls.bodies import ptx

_DONE = "mbarrier::complete_tx::bytes"
_OWN = """mapa.shared::cluster.u32 %r7, %r1, 0; mapa.shared::cluster.u32 %r8, %r2, 0;
@%p0 mbarrier.init.shared.b64 [%r2], 1; bar.sync 0;"""
STOPS = {
    "st.async": f"st.async.shared::cluster.{_DONE}.b32 [%r7], %r0, [%r8];",
    "red.async": f"red.async.relaxed.cluster.shared::cluster.{_DONE}.inc.u32 [%r7], %r0, [%r8];",
    "cp.async.bulk": f"cp.async.bulk.shared::cluster.shared::cta.{_DONE} [%r7], [%r1], 16, [%r8];",
    "cp.reduce": f"cp.reduce.async.bulk.shared::cluster.shared::cta.{_DONE}.and.b32 [%r7], [%r1], 16, [%r8];",
}
WORKS = {
    "st": "st.shared::cluster.u32 [%r7], %r0;",
    "ld": "ld.shared::cluster.u32 %r9, [%r7];",
    "atom": "atom.shared::cluster.add.u32 %r9, [%r7], 1;",
    "arrive": "@%p0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r8];",
    "barrier": "barrier.cluster.arrive; barrier.cluster.wait;",
    "load": f"""@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 16; add.u32 %r10, %r1, 128;
@%p0 cp.async.bulk.shared::cluster.global.{_DONE} [%r10], [%rd0], 16, [%r2];
W: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], 0; @!%p1 bra W;""",
    "multicast": f""".reg .b16 mask; mov.b16 mask, 1; @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 16;
add.u32 %r10, %r1, 128;
@%p0 cp.async.bulk.shared::cluster.global.{_DONE}.multicast::cluster [%r10], [%rd0], 16, [%r2], mask;
W: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], 0; @!%p1 bra W;""",
}
"""What an H200 runs without a cluster."""
DIRECTIVES = ".explicitcluster .reqnctapercluster 1, 1, 1"


def ended(text: str, **options: object) -> int:
    """How many threads come to the end of the kernel."""
    kernel = Simulator().load(text)
    report = kernel.launch("k", block=(32,), args=[np.zeros(32, np.uint32)], checks=False, **options)
    return report.instructions["ret"]


def stopping(opcode: str, directives: str = "") -> str:
    """The instruction in the first thread, between what it needs."""
    body = f"""{_OWN} @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], {16 if opcode.startswith("cp") else 4};
@!%p0 bra END; {STOPS[opcode]}
W: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], 0; @!%p1 bra W; END:"""
    text = ptx(f"st.shared.u32 [%r1], 0; {body}", [np.zeros(32, np.uint32)])
    return text.replace(")\n{", f") {directives}\n{{", 1)


@pytest.mark.parametrize("opcode", STOPS)
def test_each_stops_it_at_the_instruction(opcode: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        ended(stopping(opcode))
    (found,) = caught.value.diagnostics
    assert found.rule_id == "simulator.no-cluster"
    assert re.match(r"thread 0 of CTA 0 executes \S+ in a kernel that is launched without a cluster", found.message)
    assert STOPS[opcode].split()[0] in found.message


@pytest.mark.parametrize("opcode", STOPS)
def test_a_cluster_of_one_is_enough(opcode: str) -> None:
    assert ended(stopping(opcode, DIRECTIVES)) == 32
    assert ended(stopping(opcode), cluster=(1, 1, 1)) == 32


@pytest.mark.parametrize("name", WORKS)
def test_all_else_works_without(name: str) -> None:
    assert ended(ptx(f"st.shared.u32 [%r1], 0; {_OWN} {WORKS[name]}", [np.zeros(32, np.uint32)])) == 32


@pytest.mark.parametrize(
    ("directives", "cluster", "explicit"),
    [("", None, 0), ("", (1, 1, 1), 1), (DIRECTIVES, None, 1), (".reqnctapercluster 2", None, 1)],
)
def test_whether_a_cluster_was_asked_for(directives: str, cluster: tuple[int, int, int] | None, explicit: int) -> None:
    out = np.full(1, 7, np.uint32)
    text = ptx("mov.pred %p1, %is_explicit_cluster; selp.u32 %r3, 1, 0, %p1; @%p0 st.global.u32 [%rd0], %r3;", [out])
    text = text.replace(")\n{", f") {directives}\n{{", 1)
    launched = Simulator().load(text)
    launched.launch("k", grid=(2,), block=(1,), cluster=cluster, args=[out], checks=False)
    assert out[0] == explicit
