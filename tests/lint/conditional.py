"""Random kernels that issue, wait for and use wgmma under conditions, and what they do for each parameter."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

VALUES = range(-1, 14)
"""Values of the parameter that a kernel is tried with: they take every way that it has."""
_HEAD = """.version 8.6
.target sm_90a
.address_size 64
.entry k(.param .u32 n, .param .u64 out) {
.reg .pred %p<100>; .reg .b32 %r<200>; .reg .f32 %f<9>; .reg .b64 %rd<4>;
mov.b32 %r2, 0; ld.param.u32 %r0, [n]; ld.param.u64 %rd3, [out]; mov.u64 %rd0, 4611686293305360384;
"""
_FIRST_COUNTER = 10
_REGISTERS = 4
_MMA = (
    "wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%s}, %%rd0, %%rd0, 1, 1, 1, 0, 0;\n"
    "wgmma.commit_group.sync.aligned;"
)


@dataclass(frozen=True)
class Condition:
    """A condition: whether it holds, by the parameter, the round of the loop and the flag; and its PTX."""

    holds: Callable[[int, int, int], bool]
    ptx: str


_OF_PARAMETER = (
    Condition(lambda n, i, flag: n < 1, "setp.lt.s32 P, %r0, 1;"),
    Condition(lambda n, i, flag: n > 0, "setp.gt.s32 P, %r0, 0;"),
    Condition(lambda n, i, flag: n == 1, "setp.eq.s32 P, %r0, 1;"),
    Condition(lambda n, i, flag: n > 3, "setp.gt.s32 P, %r0, 3;"),
    Condition(lambda n, i, flag: n % 2 == 1, "and.b32 %r1, %r0, 1; setp.eq.s32 P, %r1, 1;"),
    Condition(lambda n, i, flag: n % 2 == 0, "and.b32 %r1, %r0, 1; setp.ne.s32 P, %r1, 1;"),
    Condition(lambda n, i, flag: n % 4 != 0, "and.b32 %r1, %r0, 3; setp.ne.s32 P, %r1, 0;"),
)
_OF_FLAG = (
    Condition(lambda n, i, flag: flag != 0, "setp.ne.s32 P, %r2, 0;"),
    Condition(lambda n, i, flag: flag == 0, "setp.eq.s32 P, %r2, 0;"),
)
_OF_ROUND = (
    Condition(lambda n, i, flag: i == 0, "setp.eq.s32 P, I, 0;"),
    Condition(lambda n, i, flag: i > 0, "setp.gt.s32 P, I, 0;"),
    Condition(lambda n, i, flag: i == n - 1, "sub.s32 %r1, %r0, 1; setp.eq.s32 P, I, %r1;"),
    Condition(lambda n, i, flag: i + 1 < n, "add.s32 %r1, I, 1; setp.lt.s32 P, %r1, %r0;"),
    Condition(lambda n, i, flag: i % 2 == 1, "and.b32 %r1, I, 1; setp.eq.s32 P, %r1, 1;"),
)


@dataclass(eq=False)
class Step:
    """`issue` and `use` of one of two accumulators, `wait` for all but some groups, `set` the flag, `if`, or `loop`.

    A loop runs for the rounds that the parameter says, at least once where its `number` is 0.
    """

    kind: str
    number: int = 0
    condition: Condition | None = None
    first: list[Step] = field(default_factory=list)
    second: list[Step] = field(default_factory=list)


def program(seed: int) -> list[Step]:
    """A kernel, which ends with uses of both accumulators and a wait."""
    chance = random.Random(seed)

    def steps(depth: int, in_loop: bool, most: int) -> list[Step]:
        return [step(depth, in_loop) for _ in range(chance.randint(1, most))]

    def step(depth: int, in_loop: bool) -> Step:
        kind = chance.choices(("if", "loop", "set", "issue", "wait", "use"), (25, 15, 5, 24, 24, 12))[0]
        if kind == "if" and depth:
            conditions = chance.choice((_OF_PARAMETER, _OF_PARAMETER, _OF_FLAG, _OF_ROUND if in_loop else _OF_FLAG))
            second = steps(depth - 1, in_loop, 3) if chance.random() < 0.5 else []
            return Step("if", 0, chance.choice(conditions), steps(depth - 1, in_loop, 3), second)
        if kind == "loop" and depth:
            return Step("loop", chance.randrange(2), None, steps(depth - 1, True, 4))
        return Step(kind if kind not in ("if", "loop") else "wait", chance.choice((0, 0, 1)))

    return [*steps(2, False, 4), Step("use", 0), Step("use", 1), Step("wait", 0)]


def every(steps: list[Step]) -> Iterator[Step]:
    """All steps, in the order of the text."""
    for step in steps:
        yield step
        yield from every(step.first)
        yield from every(step.second)


def text_of(steps: list[Step]) -> tuple[str, dict[int, Step]]:
    """The kernel's PTX, and its uses by their lines there."""
    lines: list[str] = []
    uses: dict[int, Step] = {}
    numbers = {id(step): number for number, step in enumerate(every(steps), start=1)}
    first_line = _HEAD.count("\n") + 1

    def write(steps: list[Step], counter: str) -> None:
        for step in steps:
            number = numbers[id(step)]
            predicate, round_ = f"%p{number}", f"%r{_FIRST_COUNTER + number}"
            registers = [f"%f{_REGISTERS * step.number + at}" for at in range(_REGISTERS)]
            if step.kind == "issue":
                lines.extend((_MMA % ", ".join(registers)).split("\n"))
            elif step.kind == "wait":
                lines.append(f"wgmma.wait_group.sync.aligned {step.number};")
            elif step.kind == "use":
                uses[first_line + len(lines)] = step
                lines.append(f"st.global.f32 [%rd3], {registers[0]};")
            elif step.kind == "set":
                lines.append(f"mov.b32 %r2, {step.number};")
            elif step.condition is not None:
                lines.append(step.condition.ptx.replace("P", predicate).replace("I", counter))
                lines.append(f"@!{predicate} bra else{number};")
                write(step.first, counter)
                lines.append(f"bra end{number}; else{number}:")
                write(step.second, counter)
                lines.append(f"end{number}:")
            else:
                if step.number:
                    lines.append(f"setp.lt.s32 {predicate}, %r0, 1; @{predicate} bra end{number};")
                lines.append(f"mov.u32 {round_}, 0; loop{number}:")
                write(step.first, round_)
                lines.append(f"add.s32 {round_}, {round_}, 1; setp.lt.s32 {predicate}, {round_}, %r0;")
                lines.append(f"@{predicate} bra loop{number}; end{number}:")

    write(steps, "%r0")
    return _HEAD + "\n".join(lines) + "\nret; }", uses


class Run:
    """What a kernel does for one value: `wrong` are the uses in flight.

    `ways` are the steps by whether they took a way, or went back; `rounds` the loops by whether they were entered.
    """

    def __init__(self, steps: list[Step], n: int) -> None:
        self.wrong: set[Step] = set()
        self.ways: set[tuple[Step, bool]] = set()
        self.rounds: set[tuple[Step, bool]] = set()
        self._n, self._flag = n, 0
        self._groups: list[int] = []
        self._run(steps, 0)

    def _run(self, steps: list[Step], at: int) -> None:
        for step in steps:
            if step.kind == "issue":
                self._groups.append(step.number)
            elif step.kind == "wait":
                del self._groups[: max(0, len(self._groups) - step.number)]
            elif step.kind == "use" and step.number in self._groups:
                self.wrong.add(step)
            elif step.kind == "set":
                self._flag = step.number
            elif step.condition is not None:
                holds = step.condition.holds(self._n, at, self._flag)
                self.ways.add((step, holds))
                self._run(step.first if holds else step.second, at)
            elif step.kind == "loop":
                rounds = max(self._n, 0) if step.number else max(self._n, 1)
                self.ways.add((step, rounds > 1))
                self.rounds |= {(step, rounds > 0)} if step.number else {(step, True), (step, False)}
                for each in range(rounds):
                    self._run(step.first, each)


def runs(steps: list[Step]) -> list[Run] | None:
    """The kernel for every value; None where some way of it is never taken."""
    of_values = [Run(steps, n) for n in VALUES]
    taken = set[tuple[Step, bool]]().union(*(run.ways for run in of_values))
    entered = set[tuple[Step, bool]]().union(*(run.rounds for run in of_values))
    loops = [step for step in every(steps) if step.kind == "loop"]
    branching = [step for step in every(steps) if step.kind in ("if", "loop")]
    return of_values if (len(taken), len(entered)) == (2 * len(branching), 2 * len(loops)) else None
