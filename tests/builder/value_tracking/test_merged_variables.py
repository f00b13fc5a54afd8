"""Variables that ifs have set: the evaluator against plain Python, which runs the program in each thread by itself."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

import nvbackend as nvb
from nvbackend import f32, i32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.signature import Parameter, Pointer

THREADS = 64
MOST_DEPTH = 3


class Ended(Exception):
    """The thread has returned."""


class Program:
    """Random statements over three variables, run by threads in Python, and written through a builder."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.certain = True
        """Whether only ifs decide what the variables hold."""
        self.body = list(self._statements(0))

    def _statements(self, depth: int) -> Iterator[tuple]:
        for _ in range(self.rng.randrange(1, 4)):
            draw = self.rng.random()
            condition = self.rng.choice("<=%"), self.rng.randrange(4), self.rng.randrange(1, 40)
            if depth < MOST_DEPTH and draw < 0.45:
                other = list(self._statements(depth + 1)) if self.rng.random() < 0.5 else None
                yield "if", condition, list(self._statements(depth + 1)), other
            elif depth < MOST_DEPTH and draw < 0.52:
                self.certain = False
                yield "loop", self.rng.randrange(3), list(self._statements(depth + 1))
            elif depth and draw < 0.56:
                self.certain = False
                yield "return", condition
            else:
                yield "set", self.rng.randrange(3), self.rng.randrange(4), self.rng.randrange(-3, 4), draw < 0.7

    # -- in Python ----------------------------------------------------------------------------------------------------

    def run(self, thread: int) -> list[int] | None:
        """What the variables hold in a thread at the end; None where it has returned."""
        held = [1, 2, 3, thread]
        try:
            self._run(self.body, held)
        except Ended:
            return None
        return held[:3]

    def _run(self, statements: list[tuple], held: list[int]) -> None:
        for kind, *rest in statements:
            if kind == "set":
                to, source, number, is_sum = rest
                held[to] = held[source] + number if is_sum else number
            elif kind == "return":
                if self._holds(rest[0], held):
                    raise Ended
            elif kind == "loop":
                for _ in range(rest[0]):
                    self._run(rest[1], held)
            elif self._holds(rest[0], held):
                self._run(rest[1], held)
            elif rest[2] is not None:
                self._run(rest[2], held)

    @staticmethod
    def _holds(condition: tuple, held: list) -> object:
        operation, source, number = condition
        value = held[source]
        return value < number if operation == "<" else value == number if operation == "=" else value % 7 < number % 7

    # -- by a builder -------------------------------------------------------------------------------------------------

    def write(self, k: KernelBuilder) -> list:
        """The same by calls; the variables."""
        held = [k.var(one, i32) for one in (1, 2, 3)]
        self._write(k, self.body, [*held, k.thread_id()])
        return held

    def _write(self, k: KernelBuilder, statements: list[tuple], held: list) -> None:
        for kind, *rest in statements:
            if kind == "set":
                to, source, number, is_sum = rest
                held[to].set(held[source] + number if is_sum else number)
            elif kind == "return":
                k.return_if(self._holds(rest[0], held))
            elif kind == "loop":
                with k.range(rest[0]):
                    self._write(k, rest[1], held)
            else:
                with k.if_(self._holds(rest[0], held)):
                    self._write(k, rest[1], held)
                if rest[2] is not None:
                    with k.else_():
                        self._write(k, rest[2], held)


def assert_agreed(seed: int) -> bool:
    """What is known of the variables is what they hold, and all of it where ifs alone decide; whether they do."""
    program = Program(seed)
    k = KernelBuilder("k", "sm_90a", threads=THREADS, parameters=[Parameter("out", Pointer(i32))])
    variables = program.write(k)
    held = [program.run(thread) for thread in range(THREADS)]
    for place, variable in enumerate(variables):
        value = variable.value
        numbers = k.core.execution.numbers(value.ir)
        assert numbers is not None or not program.certain, seed
        for thread, expected in enumerate(held):
            assert numbers is None or expected is None or numbers[thread] == expected[place], (seed, thread)
    k.finish()
    return program.certain


def test_variables_hold_what_each_thread_has_set() -> None:
    certain = [assert_agreed(seed) for seed in range(150)]
    assert certain.count(True) > 40 < certain.count(False)


@pytest.mark.exhaustive
def test_many_more_variables_hold_what_each_thread_has_set() -> None:
    for seed in range(1000, 5000):
        assert_agreed(seed)


def by_variable(k: KernelBuilder, t: nvb.Value) -> nvb.Value:
    role = k.var(5, i32)
    with k.if_(t < 2):
        role.set(t)
    return role < 5


def by_else(k: KernelBuilder, t: nvb.Value) -> nvb.Value:
    role = k.var(0, i32)
    with k.if_(t >= 2):
        role.set(7)
    with k.else_():
        role.set(1)
    return role == 1


CONDITIONS: dict[str, Callable[[KernelBuilder, nvb.Value], nvb.Value]] = {
    "a float": lambda k, t: t.to(f32) < 1.5,
    "a half": lambda k, t: t.to(nvb.f16) <= 1.0,
    "lane register": lambda k, t: (k.special_register("laneid") < 2) & (t < 32),
    "extent": lambda k, t: t + k.special_register("ntid.x") < THREADS + 2,
    "other axes": lambda k, t: (t + k.thread_id("y") + k.thread_id("z") < 2) & (k.thread_id("y") == 0),
    "a variable": by_variable,
    "a variable of both sides": by_else,
}


@pytest.mark.parametrize("condition", CONDITIONS.values(), ids=CONDITIONS)
@pytest.mark.parametrize("arrivals", [1, 2, 3])
def test_the_arrivals_of_two_threads_are_counted(condition: Callable, arrivals: int) -> None:
    k = KernelBuilder("k", "sm_90a", threads=THREADS)
    full = k.mbarrier.array(1, arrivals=arrivals)
    k.mbarrier.ready()
    with k.if_(condition(k, k.thread_id())):
        k.mbarrier.arrive(full)
    k.mbarrier.wait(full, 0)
    if arrivals == 2:
        k.finish()
    else:
        with pytest.raises(nvb.DiagnosticError, match=r"mbarrier\.arrivals"):
            k.finish()
