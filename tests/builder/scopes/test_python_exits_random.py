"""Random functions full of with-blocks: what `python_exit` reads off the bytecode is what the function did.

The witness is the run itself: each statement that leaves a block announces its line before, and every other statement
withdraws that. Without `finally`, whose body Python compiles several times, each such statement must be seen.
"""

from __future__ import annotations

import itertools
import linecache
import random
import sys
from collections.abc import Iterator
from types import TracebackType

import pytest

from nvbackend.builder.scopes.python_exits import python_exit

PROGRAMS = 200
RUNS = 3
CONDITIONS = ("bit()", "bit()", "bit()", "1", "0", "True", "None", "'text'")
"""Python leaves out what a constant of them shows that no run comes to."""


class Writer:
    """Writes the body of one random function; `mark(LINE)` comes right before each statement that may leave a block."""

    def __init__(self, seed: int, *, finally_: bool) -> None:
        self.random = random.Random(seed)
        self.finally_ = finally_
        self.lines = ["def function(block, bit, flag, mark, done):"]
        self.statements(1, depth=0, in_loop=False)

    def add(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def statements(self, indent: int, *, depth: int, in_loop: bool) -> None:
        for _ in range(self.random.randint(1, 3)):
            self.statement(indent, depth=depth, in_loop=in_loop)

    def statement(self, indent: int, *, depth: int, in_loop: bool) -> None:
        kinds = ["with", "with", "if", "exit", "loop", "try", "match", "done"] if depth < 4 else ["exit", "done"]
        getattr(self, f"write_{self.random.choice(kinds)}")(indent, depth=depth + 1, in_loop=in_loop)

    def write_done(self, indent: int, **_: object) -> None:
        self.add(indent, "done()")

    def write_exit(self, indent: int, *, in_loop: bool, **_: object) -> None:
        exits = ["return", "return None", "return 1", *(["break", "continue"] if in_loop else [])]
        self.add(indent, f"mark({len(self.lines) + 1}); {self.random.choice(exits)}")

    def write_with(self, indent: int, *, depth: int, in_loop: bool) -> None:
        shape = self.random.randrange(4)
        items = "block()" if shape == 0 else "block() as a" if shape == 1 else "block(), block() as b"
        if shape == 3:
            self.add(indent, "with (")
            self.add(indent + 1, "block() as c,")
            self.add(indent + 1, "block(),")
            self.add(indent, "):")
        else:
            self.add(indent, f"with {items}:")
        self.statements(indent + 1, depth=depth, in_loop=in_loop)

    def write_if(self, indent: int, *, depth: int, in_loop: bool) -> None:
        self.add(indent, f"if {self.random.choice(CONDITIONS)}:")
        self.statements(indent + 1, depth=depth, in_loop=in_loop)
        if self.random.random() < 0.4:
            self.add(indent, "else:")
            self.statements(indent + 1, depth=depth, in_loop=in_loop)

    def write_match(self, indent: int, *, depth: int, in_loop: bool) -> None:
        self.add(indent, "match bit():")
        patterns = ("True", "_ if flag()", "[_]", "False", "[_] as some", "other", "_")
        for index in sorted(self.random.sample(range(7), self.random.randint(1, 4))):
            self.add(indent + 1, f"case {patterns[index]}:")
            self.statements(indent + 2, depth=depth, in_loop=in_loop)
            if patterns[index] == "other":
                break

    def write_loop(self, indent: int, *, depth: int, in_loop: bool) -> None:
        head = self.random.choice(["for i in (1, 2):", "while bit():", "while 0:", "while 1:"])
        self.add(indent, head)
        if head == "while 1:":
            self.add(indent + 1, "if not bit():")
            self.add(indent + 2, f"mark({len(self.lines) + 1}); break")
        self.statements(indent + 1, depth=depth, in_loop=True)
        if self.random.random() < 0.2:
            self.add(indent, "else:")
            self.statements(indent + 1, depth=depth, in_loop=in_loop)
        self.add(indent, "done()")

    def write_try(self, indent: int, *, depth: int, in_loop: bool) -> None:
        self.add(indent, "try:")
        self.statements(indent + 1, depth=depth, in_loop=in_loop)
        handler = self.random.choice(["except ValueError:", "finally:"]) if self.finally_ else "except ValueError:"
        self.add(indent, handler)
        if handler == "finally:":
            self.add(indent + 1, "int()")
            if self.random.random() < 0.3:
                self.add(indent + 1, "if flag():")
                self.write_exit(indent + 2, in_loop=False)
        else:
            self.statements(indent + 1, depth=depth, in_loop=in_loop)


class Run:
    """One run of a function: at the end of each of its with-blocks, what was announced and what `python_exit` says."""

    def __init__(self, seed: int, lines: list[str]) -> None:
        self.random = random.Random(seed)
        self.lines = lines
        self.announced: int | None = None
        self.steps = itertools.count()
        self.seen: list[tuple[int | None, int | None, int | None]] = []

    def flag(self) -> bool:
        return next(self.steps) < 200 and self.random.random() < 0.5

    def bit(self) -> bool:
        self.done()
        return self.flag()

    def mark(self, line: int) -> None:
        self.announced = line

    def done(self) -> None:
        self.announced = None

    def block(self) -> Run:
        self.done()
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        frame = sys._getframe(1)
        in_loop, plain = (python_exit(frame, loop=loop) for loop in (True, False))
        self.seen.append((self.announced, in_loop and in_loop.lineno, plain and plain.lineno))


def runs(seed: int, *, finally_: bool) -> Iterator[tuple[list[str], Run]]:
    lines = Writer(seed, finally_=finally_).lines
    name = f"<random function {seed} {finally_}>"
    text = "\n".join(lines) + "\n"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope: dict[str, object] = {}
    exec(compile(text, name, "exec"), scope)
    function = scope["function"]
    assert callable(function)
    for turn in range(RUNS):
        run = Run(seed * RUNS + turn, lines)
        function(run.block, run.bit, run.flag, run.mark, run.done)
        yield lines, run
    del linecache.cache[name]


@pytest.mark.parametrize("finally_", [False, True])
def test_what_left_a_block_is_what_the_run_announced(finally_: bool) -> None:
    left = 0
    for lines, run in (found for seed in range(PROGRAMS) for found in runs(seed, finally_=finally_)):
        for announced, in_loop, plain in run.seen:
            text = "\n".join(lines)
            assert in_loop in (None, announced), text
            assert plain in (None, announced), text
            if announced is not None and not finally_ and not lines[announced - 1].endswith("return 1"):
                left += 1
                assert in_loop == announced, text
    assert finally_ or left > 300
