"""Waits that no run can pass: random rings of mbarriers between two threads, judged by the simulator as well."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from nvbackend import DiagnosticError
from nvbackend.lint import lint
from nvbackend.simulator import Simulator
from tests.support.ptxas import assemble

ROUNDS = (1, 2, 3, 4, 5, 6, 8)
HEAD = """.version 8.0
.target sm_90a
.address_size 64
.entry ring(.param .u32 n) .maxntid 64 {
.reg .pred %p<6>; .reg .b32 %r<20>; .shared .align 8 .b8 full[32]; .shared .align 8 .b8 free[32];
ld.param.u32 %r0, [n]; mov.u32 %r1, %tid.x; setp.eq.u32 %p0, %r1, 0; setp.eq.u32 %p1, %r1, 32;
setp.lt.s32 %p2, %r0, 1; mov.u32 %r2, full; mov.u32 %r3, free;
"""


@dataclass(frozen=True)
class Ring:
    """A producer and a consumer with `stages` mbarriers each way, and what is wrong with them."""

    stages: int
    counts: tuple[int, int]
    arrivals: tuple[int, int]
    first_parity: tuple[int, int]
    left_out: tuple[int, int]
    """The stage in which a thread does not arrive; -1 for none."""
    is_late: tuple[bool, bool]
    """Whether a thread arrives before its wait."""

    @property
    def text(self) -> str:
        """The kernel."""
        inits = [
            f"mbarrier.init.shared::cta.b64 [{name}+{8 * stage}], {count};"
            for name, count in zip(("full", "free"), self.counts, strict=True)
            for stage in range(self.stages)
        ]
        roles = (
            f"{name}: @%p2 bra done; {self._role(which, *bars)} bra done;"
            for which, (name, bars) in enumerate((("make", ("%r2", "%r3")), ("take", ("%r3", "%r2"))))
        )
        begin = f"@!%p0 bra begun; {' '.join(inits)} begun: bar.sync 0; @%p0 bra make; @%p1 bra take; bra done;"
        return f"{HEAD}{begin}\n" + "\n".join(roles) + "\ndone: ret; }"

    def _role(self, which: int, own: str, other: str) -> str:
        arrive = "mbarrier.arrive.shared::cta.b64 _, [%r8];"
        guard = "" if self.left_out[which] < 0 else "@%p4 "
        arrives = f"add.u32 %r8, {own}, %r7; setp.ne.u32 %p4, %r4, {self.left_out[which]};" + "".join(
            f"{guard}{arrive}" for _ in range(self.arrivals[which])
        )
        wait = (
            f"add.u32 %r9, {other}, %r7; w{which}: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r9], %r5; "
            f"@!%p3 bra w{which};"
        )
        steps = (arrives, wait) if self.is_late[which] else (wait, arrives)
        return (
            f"mov.u32 %r4, 0; mov.u32 %r5, {self.first_parity[which]}; mov.u32 %r6, %r0; l{which}: "
            f"shl.b32 %r7, %r4, 3; {steps[0]} {steps[1]} add.u32 %r4, %r4, 1; setp.eq.u32 %p5, %r4, {self.stages}; "
            "selp.u32 %r10, 1, 0, %p5; xor.b32 %r5, %r5, %r10; selp.u32 %r4, 0, %r4, %p5; add.s32 %r6, %r6, -1; "
            f"setp.ne.u32 %p5, %r6, 0; @%p5 bra l{which};"
        )


def _ring(seed: int) -> Ring:
    chance = random.Random(seed)
    stages = chance.choice((1, 2, 3))
    wrong = chance.choice(("", "", "count", "arrival", "parity", "left", "late"))
    side = chance.randrange(2)

    def changed(kind: str, plain: tuple[int, int], value: int) -> tuple[int, int]:
        if wrong != kind:
            return plain
        return (value, plain[1]) if side == 0 else (plain[0], value)

    return Ring(
        stages,
        changed("count", (1, 1), 2),
        changed("arrival", (1, 1), 2),
        changed("parity", (1, 0), side),
        changed("left", (-1, -1), chance.randrange(stages)),
        (wrong == "late" and side == 0, wrong == "late" and side == 1),
    )


def _ends(text: str, rounds: int) -> bool:
    hangs: set[str] = set()
    try:
        Simulator().load(text).launch("ring", block=(64, 1, 1), args=(rounds,), checks=False)
    except DiagnosticError as error:
        hangs = {each.rule_id for each in error.diagnostics}
    assert hangs <= {"simulator.deadlock", "simulator.livelock"}
    return not hangs


def _judged(seed: int) -> tuple[bool, bool]:
    """Whether something is said, and whether all launches end. Where arrivals are too few, both answers agree."""
    ring = _ring(seed)
    found = [each.rule_id for each in lint(ring.text)]
    assert set(found) <= {"lint.mbarrier-stuck"}
    ends = all(_ends(ring.text, rounds) for rounds in ROUNDS)
    assert not (found and ends), ring
    is_short = 2 in ring.counts or ring.left_out != (-1, -1)
    assert not is_short or bool(found) is not ends, ring
    return bool(found), ends


def test_what_is_said_to_hang_hangs_in_the_simulator() -> None:
    assert assemble(_ring(0).text, "sm_90a")[0]
    judged = [_judged(seed) for seed in range(40)]
    assert sum(said for said, _ in judged) >= 10
    assert sum(ends for _, ends in judged) >= 10


@pytest.mark.exhaustive(seconds=100)
def test_many_rings() -> None:
    assert len({_judged(seed) for seed in range(40, 640)}) == 3


def test_a_number_that_one_way_knows_for_each_thread_is_unknown_after_both() -> None:
    text = _ring(0).text
    more = "mov.u32 %r11, %ctaid.x; @%p0 bra both; mov.u32 %r11, %r1; both: add.u32 %r12, %r11, 1; ret;"
    assert lint(text.replace("done: ret;", f"done: {more}")) == lint(text)
