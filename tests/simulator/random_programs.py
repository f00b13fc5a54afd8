"""Random PTX with loops, branches, jumps out, shuffles, reductions and barriers, and what each thread makes of it.

A program is a tree of statements. It is printed as PTX, and followed in Python one thread after another; at the top of
the tree all threads take each statement before any takes the next one, as only there they exchange values.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.simulator.scalar.integer_meaning import signed

THREADS = 96
VARIABLES = 6
COUNTERS = 4
_MASK = 0xFFFFFFFF
_HEADER = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 source, .param .u64 target, .param .u64 counters)
{{
    .reg .b32 %v<{variables}>, %t, %a, %base, %c<{loops}>; .reg .b64 %in, %out, %count, %word; .reg .pred %p;
    .shared .align 4 .b32 box[{threads}]; .shared .align 4 .b32 sums[4];
    ld.param.u64 %in, [source]; ld.param.u64 %out, [target]; ld.param.u64 %count, [counters];
    mov.u32 %t, %tid.x;
    mul.wide.u32 %word, %t, {row_bytes};
    add.s64 %in, %in, %word; add.s64 %out, %out, %word;
"""

Operation = Callable[[int, int], int]
_OPERATIONS: dict[str, Operation] = {
    "add.s32": lambda a, b: a + b,
    "sub.s32": lambda a, b: a - b,
    "mul.lo.s32": lambda a, b: a * b,
    "and.b32": lambda a, b: a & b,
    "or.b32": lambda a, b: a | b,
    "xor.b32": lambda a, b: a ^ b,
    "shl.b32": lambda a, b: a << min(b, 32),
    "shr.s32": lambda a, b: signed(a, 32) >> min(b, 32),
    "max.u32": max,
    "min.s32": lambda a, b: min(signed(a, 32), signed(b, 32)),
}
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "lt.s32": lambda a, b: signed(a, 32) < signed(b, 32),
    "hi.u32": lambda a, b: a > b,
    "eq.b32": lambda a, b: a == b,
    "ge.u32": lambda a, b: a >= b,
}
_REDUCTIONS: tuple[tuple[str, Operation], ...] = (
    ("add.u32", lambda a, b: a + b),
    ("max.u32", max),
    ("xor.b32", lambda a, b: a ^ b),
    ("or.b32", lambda a, b: a | b),
)
"""What is done to each counter: always the same, so that the order of threads does not matter."""


@dataclass
class Condition:
    """A comparison of a variable with a variable or a number."""

    name: str
    a: int
    b: int
    b_is_number: bool

    def text(self) -> str:
        other = str(self.b) if self.b_is_number else f"%v{self.b}"
        return f"setp.{self.name} %p, %v{self.a}, {other};"

    def holds(self, values: Sequence[int]) -> bool:
        return _COMPARISONS[self.name](values[self.a], self.b if self.b_is_number else values[self.b])


@dataclass
class Statement:
    """`kind` is assign, if, loop, leave (a loop), end (the thread), count, shuffle or pass (through shared memory)."""

    kind: str
    name: str = ""
    numbers: tuple[int, ...] = ()
    condition: Condition | None = None
    inside: list[Statement] = field(default_factory=list)
    otherwise: list[Statement] = field(default_factory=list)


class _End(Exception):
    """The thread ends."""


class _Leave(Exception):
    """The innermost loop ends."""


class Drawer:
    """Draws programs from a seed."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._ends = False

    def program(self, count: int = 14) -> list[Statement]:
        """Statements of the top."""
        return [self._statement(0, in_loop=False) for _ in range(count)]

    def _statement(self, depth: int, *, in_loop: bool) -> Statement:
        kinds = ["assign"] * 6 + ["count"]
        if depth < 4:
            kinds += ["if"] * 3 + ["loop"] * 2
        if in_loop:
            kinds.append("leave")
        if depth > 1:
            kinds.append("end")
        if depth == 0 and not self._ends:
            kinds += ["shuffle"] * 3 + ["pass"] * 2
        kind = self._rng.choice(kinds)
        if kind == "end" and self._rng.random() < 0.7:
            kind = "assign"
        self._ends |= kind == "end"
        return getattr(self, f"_{kind}")(depth, in_loop=in_loop)

    def _variable(self) -> int:
        return self._rng.randrange(VARIABLES)

    def _condition(self) -> Condition:
        is_number = self._rng.random() < 0.4
        b = self._rng.choice((0, 1, 7, 1 << 20)) if is_number else self._variable()
        return Condition(self._rng.choice(list(_COMPARISONS)), self._variable(), b, is_number)

    def _block(self, depth: int, *, in_loop: bool) -> list[Statement]:
        return [self._statement(depth + 1, in_loop=in_loop) for _ in range(self._rng.randint(1, 4))]

    def _assign(self, _depth: int, *, in_loop: bool) -> Statement:
        numbers = (self._variable(), self._variable(), self._variable())
        condition = self._condition() if self._rng.random() < 0.3 else None
        return Statement("assign", self._rng.choice(list(_OPERATIONS)), numbers, condition)

    def _count(self, _depth: int, *, in_loop: bool) -> Statement:
        return Statement("count", self._rng.choice(("shared", "global")), (self._rng.randrange(4), self._variable()))

    def _if(self, depth: int, *, in_loop: bool) -> Statement:
        inside = self._block(depth, in_loop=in_loop)
        otherwise = self._block(depth, in_loop=in_loop) if self._rng.random() < 0.5 else []
        return Statement("if", "", (), self._condition(), inside, otherwise)

    def _loop(self, depth: int, *, in_loop: bool) -> Statement:
        return Statement("loop", "", (self._variable(),), None, self._block(depth, in_loop=True))

    def _leave(self, _depth: int, *, in_loop: bool) -> Statement:
        return Statement("leave", condition=self._condition())

    def _end(self, _depth: int, *, in_loop: bool) -> Statement:
        return Statement("end", condition=self._condition())

    def _shuffle(self, _depth: int, *, in_loop: bool) -> Statement:
        mode = self._rng.choice(("up", "down", "bfly", "idx"))
        return Statement("shuffle", mode, (self._variable(), self._variable(), self._rng.randrange(32)))

    def _pass(self, _depth: int, *, in_loop: bool) -> Statement:
        return Statement("pass", "", (self._variable(), self._variable(), self._rng.randrange(THREADS)))


class Printer:
    """A program as PTX."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._labels = 0
        self._loops: list[tuple[str, int]] = []
        self._counters = 0

    def text(self, program: Sequence[Statement]) -> str:
        """The whole text."""
        self.lines += [f"ld.global.u32 %v{one}, [%in+{4 * one}];" for one in range(VARIABLES)]
        self.lines += ["setp.ge.u32 %p, %t, 4; @%p bra START;", "mov.u32 %a, sums; mad.lo.u32 %a, %t, 4, %a;"]
        self.lines += ["st.shared.u32 [%a], 0;", "START: bar.sync 0;"]
        self._block(program)
        self.lines.append("DONE:")
        self.lines += [f"st.global.u32 [%out+{4 * one}], %v{one};" for one in range(VARIABLES)]
        self.lines.append("bar.sync 0; setp.ge.u32 %p, %t, 4; @%p ret;")
        self.lines += ["mov.u32 %a, sums; mad.lo.u32 %a, %t, 4, %a; ld.shared.u32 %a, [%a];"]
        self.lines += ["mul.wide.u32 %word, %t, 4; add.s64 %count, %count, %word; st.global.u32 [%count+16], %a; ret;"]
        head = _HEADER.format(variables=VARIABLES, loops=self._counters + 1, threads=THREADS, row_bytes=4 * VARIABLES)
        return head + "\n".join(f"    {line}" for line in self.lines) + "\n}\n"

    def _label(self) -> str:
        self._labels += 1
        return f"L{self._labels}"

    def _block(self, statements: Sequence[Statement]) -> None:
        for one in statements:
            getattr(self, f"_{one.kind}")(one)

    def _assign(self, one: Statement) -> None:
        target, a, b = one.numbers
        guard = ""
        if one.condition is not None:
            self.lines.append(one.condition.text())
            guard = "@%p "
        self.lines.append(f"{guard}{one.name} %v{target}, %v{a}, %v{b};")

    def _count(self, one: Statement) -> None:
        counter, value = one.numbers
        address = f"[%count+{4 * counter}]" if one.name == "global" else f"[sums+{4 * counter}]"
        self.lines.append(f"red.{one.name}.{_REDUCTIONS[counter][0]} {address}, %v{value};")

    def _if(self, one: Statement) -> None:
        assert one.condition is not None
        otherwise, end = self._label(), self._label()
        self.lines += [one.condition.text(), f"@!%p bra {otherwise};"]
        self._block(one.inside)
        self.lines += [f"bra {end};", f"{otherwise}:"]
        self._block(one.otherwise)
        self.lines.append(f"{end}:")

    def _loop(self, one: Statement) -> None:
        head, end, counter = self._label(), self._label(), self._counters
        self._counters += 1
        self._loops.append((end, counter))
        self.lines += [f"and.b32 %c{counter}, %v{one.numbers[0]}, 7;", f"{head}:"]
        self.lines += [f"setp.eq.u32 %p, %c{counter}, 0; @%p bra {end};", f"sub.u32 %c{counter}, %c{counter}, 1;"]
        self._block(one.inside)
        self.lines += [f"bra {head};", f"{end}:"]
        self._loops.pop()

    def _leave(self, one: Statement) -> None:
        assert one.condition is not None
        self.lines += [one.condition.text(), f"@%p bra {self._loops[-1][0]};"]

    def _end(self, one: Statement) -> None:
        assert one.condition is not None
        self.lines += [one.condition.text(), "@%p bra DONE;"]

    def _shuffle(self, one: Statement) -> None:
        target, source, lane = one.numbers
        clamp = 0 if one.name == "up" else 31
        self.lines.append(f"shfl.sync.{one.name}.b32 %v{target}, %v{source}, {lane}, {clamp}, -1;")

    def _pass(self, one: Statement) -> None:
        target, source, distance = one.numbers
        self.lines += ["mov.u32 %a, box; mad.lo.u32 %a, %t, 4, %a;", f"st.shared.u32 [%a], %v{source}; bar.sync 0;"]
        self.lines += [f"add.u32 %a, %t, {distance}; rem.u32 %a, %a, {THREADS};"]
        self.lines += [
            "mov.u32 %base, box; mad.lo.u32 %a, %a, 4, %base;",
            f"ld.shared.u32 %v{target}, [%a]; bar.sync 0;",
        ]


class Follower:
    """What threads make of a program. `rows` are their variables, `shared` and `counters` what they count in."""

    def __init__(self, rows: Sequence[Sequence[int]]) -> None:
        self.rows = [list(row) for row in rows]
        self.ended = [False] * len(self.rows)
        self.counters = {"global": [0] * COUNTERS, "shared": [0] * COUNTERS}

    def run(self, program: Sequence[Statement]) -> None:
        """All threads, all statements."""
        for one in program:
            if one.kind in ("shuffle", "pass"):
                self._exchange(one)
                continue
            for thread, row in enumerate(self.rows):
                if not self.ended[thread]:
                    try:
                        self._take(one, row)
                    except _End:
                        self.ended[thread] = True

    def _exchange(self, one: Statement) -> None:
        target, source, number = one.numbers
        before = [row[source] for row in self.rows]
        for thread, row in enumerate(self.rows):
            if one.kind == "pass":
                row[target] = before[(thread + number) % len(self.rows)]
                continue
            lane, warp = thread % 32, thread - thread % 32
            place = {"up": lane - number, "down": lane + number, "bfly": lane ^ number, "idx": number}[one.name]
            row[target] = before[warp + (place if 0 <= place < 32 else lane)]

    def _take(self, one: Statement, row: list[int]) -> None:
        holds = one.condition is None or one.condition.holds(row)
        if one.kind == "assign" and holds:
            target, a, b = one.numbers
            row[target] = _OPERATIONS[one.name](row[a], row[b]) & _MASK
        elif one.kind == "count":
            counter, value = one.numbers
            sums = self.counters[one.name]
            sums[counter] = _REDUCTIONS[counter][1](sums[counter], row[value]) & _MASK
        elif one.kind == "if":
            for each in one.inside if holds else one.otherwise:
                self._take(each, row)
        elif one.kind == "loop":
            self._loop(one, row)
        elif one.kind in ("leave", "end") and holds:
            raise _Leave if one.kind == "leave" else _End

    def _loop(self, one: Statement, row: list[int]) -> None:
        try:
            for _ in range(row[one.numbers[0]] & 7):
                for each in one.inside:
                    self._take(each, row)
        except _Leave:
            pass
