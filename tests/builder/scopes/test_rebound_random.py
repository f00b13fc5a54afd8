"""Random programs of blocks: which place is bound anew in a block and read after it, against a model that runs them.

The model knows the statements as it wrote them and sees what each place holds; it reads no source.
"""

from __future__ import annotations

import linecache
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from nvbackend.builder.scopes.rebound import holdings, rebound

PROGRAMS = 600
PLACES = ("a", "b", "v[0]", "v[1]", "v[-1]", "d['x']", "d['y']", "o.p", "o.q")
WHOLE = {
    "use(len({}))": "",
    "use(list({}))": "read",
    "use(*{})": "read",
    "use({})": "?",
    "{0} = list({0})": "read",
    "use(lambda: {})": "?",
}
"""How a statement uses each entry of a list: not, or in a way that the source leaves open."""
ROUNDS: dict[str, tuple[object, ...]] = {
    "condition": (0, 1, 1),
    "endless": (),
    "two rounds": (0, 2, 1),
    "no round": (3, 3, 1),
    "any rounds": (0, None, 1),
    "any start": (None, 2, 1),
}
"""Blocks, and the first, the end and the step of those that are loops."""


class Value:
    """A run-time value of a region, as a value has it or as a variable has it; or of none."""

    def __init__(self, region: Any, kind: int) -> None:
        if kind:
            self._region = region
        else:
            self._storage = SimpleNamespace(region=region)


class Tile(Value):
    """A name that no run-time value has."""


def region_of(thing: object) -> Any:
    if type(thing) is not Value:
        return None
    return thing._region if hasattr(thing, "_region") else thing._storage.region


PYTHON = {"if": "if here():", "for": "for _ in v:", "def": "def later():"}


@dataclass
class Statement:
    """Places that are read and then written, a use of a whole list, or what has a body.

    Of the kind that is one of `ROUNDS`, or of `PYTHON`; a block of two items has a `second` kind.
    """

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    whole: str = ""
    kind: str = ""
    second: str = ""
    body: list[Statement] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        if self.kind:
            second = f", block({self.second!r})" if self.second else ""
            yield PYTHON.get(self.kind, f"with block({self.kind!r}){second}:")
            yield from ("    " + line for each in self.body for line in each.lines())
            if self.kind == "def":
                yield "later()"
        elif self.whole:
            yield self.whole.format("v")
        else:
            written = "".join(place + ", " for place in self.writes)
            values = ", ".join(self.reads)
            yield f"{written}= {values}," if self.writes else f"use({values})"


def some(rng: random.Random, depth: int) -> list[Statement]:
    found = []
    for _ in range(rng.randint(2, 5)):
        choice = rng.random()
        count = rng.randint(1, 2)
        places = rng.sample(PLACES, 2 * count)
        if depth < 3 and choice < (0.6 if depth == 0 else 0.2):
            kinds = [rng.choice(list(ROUNDS)) for _ in range(2)]
            if rng.random() < 0.2:
                kinds = ["if", ""]
            elif rng.random() < 0.8:
                kinds[1] = ""
            found.append(Statement(kind=kinds[0], second=kinds[1], body=some(rng, depth + 1)))
        elif choice > 0.9:
            inside = Statement(("3",), (places[0],)) if rng.randrange(2) else Statement(reads=(places[0],))
            kind = rng.choice(("for", "def")) if not inside.writes else "def"
            found.append(Statement(kind=kind, body=[inside]))
        elif choice > 0.85:
            found.append(Statement(whole="use(lambda: {})"))
        elif choice < 0.65 and depth and rng.random() < 0.2:
            found.append(Statement(whole=rng.choice(list(WHOLE))))
        elif choice < (0.6 if depth else 0):
            sources = [rng.choice((place, "new()", "3", "2.5", "True")) for place in places[count:]]
            found.append(Statement(tuple(sources), tuple(places[:count])))
        else:
            found.append(Statement(reads=tuple(places[:count])))
    return found


def mentions(body: Sequence[Statement], name: str) -> bool:
    return any(
        name in [place[0] for place in (*each.reads, *each.writes)]
        or ((each.whole or each.kind == "for") and name == "v")
        or mentions(each.body, name)
        for each in body
    )


def first_use(body: Sequence[Statement], place: str) -> str | None:
    for each in body:
        if each.kind == "for":
            use = "read" if place[0] == "v" else first_use(each.body, place)
            if use is not None:
                return use
        elif each.kind and mentions(each.body, place[0]):
            return "?"
        if each.whole and place[0] == "v" and WHOLE[each.whole]:
            return WHOLE[each.whole]
        if place in each.reads:
            return "read"
        if place in each.writes:
            return "written"
    return None


def assigned(body: Sequence[Statement]) -> Iterator[str]:
    for each in body:
        yield from each.writes
        yield from assigned(each.body if each.kind != "def" else ())


def carried(body: list[Statement], rest: Sequence[Statement], program: list[Statement]) -> Iterator[str]:
    """The places that a loop's body reads, sets once or at its end, and that nothing reads after that."""
    every = [*assigned(body)]
    for each, before, later in in_order(body, [], []):
        for place in each.writes:
            is_hidden = hides(program, place[0])
            after = [*later, *rest] if len(place) == 1 else later
            once = every.count(place) == 1 or each is body[-1]
            if once and first_use(before, place) == "read" and not mentions(after, place[0]) and not is_hidden:
                yield place


def in_order(
    body: list[Statement], before: list[Statement], later: list[Statement]
) -> Iterator[tuple[Statement, list[Statement], list[Statement]]]:
    for place, each in enumerate(body):
        earlier, rest = [*before, *body[:place]], [*body[place + 1 :], *later]
        if each.kind in ROUNDS:
            yield from in_order(each.body, earlier, rest)
        elif not each.kind:
            yield each, earlier, rest


def hides(body: Sequence[Statement], name: str) -> bool:
    """Whether a function has the name."""
    return any(
        (each.kind == "def" and mentions(each.body, name))
        or ("lambda" in each.whole and name == "v")
        or hides(each.body, name)
        for each in body
    )


class Run:
    """One run of a program: at the end of each block, what is said and what the model expects."""

    def __init__(self, rng: random.Random, program: list[Statement]) -> None:
        self.rng, self.program = rng, program
        self.regions = [SimpleNamespace(open=True)]
        self.blocks = self.each_block(program, [], [])
        self.judged: list[tuple[str | None, set[str]]] = []

    def each_block(
        self, body: Sequence[Statement], after: list[Statement], later: list[Statement]
    ) -> Iterator[tuple[Statement, list[Statement], list[Statement]]]:
        """The blocks in the order of the run, what follows each where the same threads come, and all that does."""
        for place, each in enumerate(body):
            rest, every = [*body[place + 1 :], *after], [*body[place + 1 :], *later]
            if each.kind in ROUNDS:
                yield from [(each, rest, every)] * (2 if each.second else 1)
            yield from self.each_block(each.body, rest if each.kind == "if" else [], every)

    def new(self) -> Value:
        kind = Tile if self.rng.random() < 0.1 else Value
        region = None if self.rng.random() < 0.1 else self.rng.choice(self.regions)
        return kind(region, self.rng.randrange(2))

    def block(self, kind: str) -> Block:
        statement, rest, later = next(self.blocks)
        assert kind in (statement.kind, statement.second)
        return Block(self, kind, statement, rest, later)


class Block:
    def __init__(
        self, run: Run, kind: str, statement: Statement, rest: list[Statement], later: list[Statement]
    ) -> None:
        self.run, self.kind, self.statement, self.rest, self.later = run, kind, statement, rest, later
        loop = kind != "condition"
        rounds = tuple(SimpleNamespace(constant=number) for number in ROUNDS[kind])
        self.region = SimpleNamespace(open=True, exit_block=object() if loop else None, rounds=rounds)

    def __enter__(self) -> None:
        frame = sys._getframe(1)
        self.held = holdings(frame)
        self.list = frame.f_locals["v"]
        self.before = {place: eval(place, {}, frame.f_locals) for place in PLACES}
        self.run.regions.append(self.region)

    def __exit__(self, *_: object) -> None:
        self.run.regions.pop()
        self.region.open = False
        frame = sys._getframe(1)
        found = rebound(frame, self.held, self.region)
        same_list = frame.f_locals["v"] is self.list
        after = {place: eval(place, {}, frame.f_locals) for place in PLACES}
        self.run.judged.append((found and found.text, {*self.expected(after, same_list)}))

    def expected(self, after: dict[str, Any], same_list: bool) -> Iterator[str]:
        rounds = self.kind in ("endless", "two rounds")
        for place in assigned(self.statement.body):
            old, new = self.before[place], after[place]
            if new is old or region_of(old) is None or (place[0] == "v" and not same_list):
                continue
            if type(new) not in (int, float, bool) and (region_of(new) is None or not region_of(new).open):
                continue  # what is of the block is refused where it is used
            is_read = first_use(self.rest, place) == "read"
            if is_read and (not rounds or first_use(self.statement.body, place) == "read"):
                yield place
        yield from self.carried(after, same_list)

    def carried(self, after: dict[str, Any], same_list: bool) -> Iterator[str]:
        if self.kind in ("condition", "no round"):
            return
        for place in carried(self.statement.body, self.later, self.run.program):
            old, new = self.before[place], after[place]
            if new is old or region_of(old) is None or region_of(new) is None or (place[0] == "v" and not same_list):
                continue
            if len(place) == 1 or not region_of(new).open:
                yield place


def judged(seed: int) -> Iterator[tuple[str, str | None, set[str]]]:
    rng = random.Random(seed)
    program = some(rng, 0)
    run = Run(rng, program)
    body = ["a, b, v, d, o = start()", *(line for each in program for line in each.lines())]
    text = "def around(block, here, new, use, start, a=0, b=0):\n    def program():\n"
    text += "".join(f"        {line}\n" for line in body) + "    program()\n    use(a, b)\n"
    name = f"<random program {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope: dict[str, Any] = {}
    exec(compile(text, name, "exec"), scope)

    def start() -> tuple[Any, ...]:
        values = [run.new() for _ in range(6)]
        return (
            run.new(),
            run.new(),
            values[:2],
            {"x": values[2], "y": values[3]},
            SimpleNamespace(p=values[4], q=values[5]),
        )

    scope["around"](run.block, lambda: True, run.new, lambda *_: None, start)
    del linecache.cache[name]
    return ((text, *each) for each in run.judged)


def test_what_is_said_is_what_the_model_expects() -> None:
    told = silent = 0
    for text, said, expected in (each for seed in range(PROGRAMS) for each in judged(seed)):
        assert said in (expected or {None}), (text, said, expected)
        told, silent = told + bool(expected), silent + (not expected)
    assert told > 100
    assert silent > 200
