"""Registers that a kernel uses and has never set, such as an accumulator that nothing cleared."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend.simulator import Simulator
from nvbackend.simulator.events import Site
from nvbackend.simulator.machine.lanes import Lanes
from nvbackend.simulator.machine.unwritten import Unwritten
from tests.simulator.calls.bodies import rules

STORE = "mul.wide.u32 %rd9, %r0, 4; add.u64 %rd8, %rd0, %rd9; st.global.f32 [%rd8], %f0;"
OPERANDS = "mov.u32 %r10, 0;"
MMA = """mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
{%f0, %f1, %f2, %f3}, {%r10, %r10, %r10, %r10}, {%r10, %r10}, {%f0, %f1, %f2, %f3};"""
CLEAR = " ".join(f"mov.f32 %f{number}, 0f00000000;" for number in range(4))
TILES = """mov.u32 %r20, 0; mov.u32 %r21, 0;
L0: shl.b32 %r22, %r0, 2; shl.b32 %r23, %r21, 9; add.u32 %r22, %r22, %r23; add.u32 %r22, %r22, %r1;
st.shared.u32 [%r22], %r20; add.u32 %r21, %r21, 1; setp.lt.u32 %p3, %r21, 16; @%p3 bra L0;
fence.proxy.async; bar.sync 0; shr.u32 %r24, %r1, 4; cvt.u64.u32 %rd10, %r24; or.b64 %rd10, %rd10, 0x800080010000;"""
WGMMA = """wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f0, %f1, %f2, %f3}}, %rd10, %rd10, {scale}, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"""
LOOP = "mov.u32 %r5, 0; L: {body} add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 3; @%p2 bra L;"
USES = {
    "a sum of products": (LOOP.format(body=MMA), CLEAR),
    "a sum": (LOOP.format(body="add.f32 %f0, %f0, 0f3F800000;"), CLEAR),
    "a wgmma that adds": (TILES + WGMMA.format(scale=1), CLEAR),
    "a wgmma whose predicate says so": (TILES + "setp.eq.u32 %p6, 0, 0;" + WGMMA.format(scale="%p6"), CLEAR),
    "a branch": ("setp.eq.u32 %p5, %r40, 1; @%p5 bra END; END: mov.f32 %f0, 0f00000000;", "mov.u32 %r40, 0;"),
    "set by some threads": ("@%p0 bra S; bra E; S: mov.f32 %f0, 0f00000000; E:", CLEAR),
}


def found(body: str) -> list[str]:
    return [rule for rule, _ in rules(OPERANDS + body + STORE, np.zeros(128, np.float32), threads=128)]


@pytest.mark.parametrize("name", USES)
def test_what_is_used_is_set_before(name: str) -> None:
    body, sets = USES[name]
    assert found(body) == ["simulator.unset"]
    assert found(sets + body) == []


@pytest.mark.parametrize(
    "body",
    [
        TILES + WGMMA.format(scale=0),
        TILES + "setp.ne.u32 %p6, %r0, %r0;" + LOOP.format(body=WGMMA.format(scale="%p6") + "setp.eq.u32 %p6, 0, 0;"),
        "@%p0 mov.u32 %r40, 3; shfl.sync.idx.b32 %r41, %r40, 0, 31, -1; cvt.rn.f32.u32 %f0, %r41;",
        "mov.b32 %r40, {%h0, %h1}; mov.f32 %f0, 0f00000000;",
        "st.shared.u32 [%r1], %r40; mov.f32 %f0, 0f00000000;",
    ],
    ids=["overwritten", "overwritten at first", "given to all by one", "packed", "stored for nobody"],
)
def test_what_nobody_needs_may_be_unset(body: str) -> None:
    assert found(body) == []


HELPER = """.version 9.0
.target sm_90a
.address_size 64
.func count(.reg .b64 at)
{{
.reg .f32 %f<3>;
{first}
add.f32 %f1, %f1, 0f3F800000; st.global.f32 [at], %f1; ret;
}}
.visible .entry k(.param .u64 a0)
{{
.reg .b64 %rd<2>;
ld.param.u64 %rd0, [a0]; call count, (%rd0); ret;
}}
"""


def test_a_function_sets_its_registers_and_its_caller_the_parameters_of_it() -> None:
    def run(first: str) -> None:
        Simulator().load(HELPER.format(first=first)).launch("k", block=(32,), args=[np.zeros(1, np.float32)])

    run("mov.f32 %f1, 0f00000000;")
    with pytest.raises(nvb.DiagnosticError, match=r"simulator\.unset\]: .* uses register %f1, which it has never set"):
        run("")


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The instructions that a run follows."""
    texts: list[str] = []
    own = Unwritten.step

    def step(self: Unwritten, site: Site, lanes: Lanes) -> None:
        texts.append(site.text)
        own(self, site, lanes)

    monkeypatch.setattr(Unwritten, "step", step)
    return texts


def test_registers_are_followed_where_some_path_has_not_set_them(followed: list[str]) -> None:
    """A loop after that, and a program whose paths all set theirs, are not made slower."""
    loop = LOOP.format(body="add.f32 %f1, %f1, 0f3F800000;")
    assert found(CLEAR + loop) == []
    assert followed == []
    some = "@%p0 bra S; bra E; S: mov.f32 %f3, 0f00000000; E: mov.f32 %f1, %f3; mov.f32 %f1, 0f00000000;"
    assert found("mov.f32 %f0, 0f00000000;" + some + loop) == []
    assert set(followed) == {"mov.f32 %f3, 0f00000000;", "mov.f32 %f1, %f3;", "mov.f32 %f1, 0f00000000;"}
    assert len(followed) == 4
