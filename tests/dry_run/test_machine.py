"""The machine of the dry run against Python: random integer programs with branches and loops, thread by thread."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import s32, u32
from nvbackend.builder.kernel.dry_run import subject_of
from nvbackend.diagnostics import Diagnostic
from nvbackend.dry_run.protocols.run import Run
from nvbackend.dry_run.runs import check
from nvbackend.dry_run.seam import DONE, Launch, Outcome, Step, Unknown
from nvbackend.dry_run.subject import compiled, run

THREADS, VARIABLES, WORDS = 64, 3, 4096
_MASK = 0xFFFF_FFFF
Statement = tuple[Any, ...]


@dataclass
class Seen:
    """Protocols that only note the addresses of stores to shared memory, in the order of each thread."""

    stores: dict[int, list[Any]] = field(default_factory=dict)

    def execute(self, step: Step) -> Outcome:
        if step.instr.opcode == "st.shared":
            value = step.value("address")
            for lane in range(32):
                if step.lanes >> lane & 1:
                    number = value if isinstance(value, (int, Unknown)) else value.numbers[lane]
                    self.stores.setdefault(step.warps[0] * 32 + lane, []).append(number)
        return DONE

    def ended(self, cta: int, warp: int) -> None:
        del cta, warp

    def met(self, cta: int, warp: int) -> None:
        del cta, warp

    def deadlock(self, waiting: Any) -> None:
        raise AssertionError(waiting)

    def finish(self, *, whole: bool = True) -> list[Diagnostic]:
        assert whole
        return []


# -- programs ----------------------------------------------------------------------------------------------------------

_BINARY: dict[str, tuple[Callable[[Any, Any], Any], Callable[[int, int], int]]] = {
    "add": (lambda a, b: a + b, lambda a, b: a + b),
    "sub": (lambda a, b: a - b, lambda a, b: a - b),
    "mul": (lambda a, b: a * b, lambda a, b: a * b),
    "and": (lambda a, b: a & b, lambda a, b: a & b),
    "or": (lambda a, b: a | b, lambda a, b: a | b),
    "xor": (lambda a, b: a ^ b, lambda a, b: a ^ b),
    "div": (lambda a, b: a // (b | 1), lambda a, b: a // (b | 1)),
    "rem": (lambda a, b: a % (b | 1), lambda a, b: a % (b | 1)),
    "shr": (lambda a, b: a >> (b & 31), lambda a, b: a >> (b & 31)),
    "shl": (lambda a, b: a << (b & 31), lambda a, b: a << (b & 31)),
    "sar": (
        lambda a, b: (a.bitcast(s32) >> (b & 31).bitcast(s32)).bitcast(u32),
        lambda a, b: _signed(a) >> (b & 31),
    ),
}
_TESTS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[int, int], bool]]] = {
    "lt": (lambda a, b: a < b, lambda a, b: a < b),
    "ge": (lambda a, b: a >= b, lambda a, b: a >= b),
    "eq": (lambda a, b: (a & 3) == (b & 3), lambda a, b: a & 3 == b & 3),
    "slt": (lambda a, b: a.bitcast(s32) < b.bitcast(s32), lambda a, b: _signed(a) < _signed(b)),
}


def _sum(a: Any, m: int, b: Any, n: int) -> Any:
    """Sums of which some add only numbers, some are the same twice, and one is not needed by itself."""
    near, far = a + m, a + m + n
    return (far + n) * 5 + (near ^ (b + m)) + ((a + m) * 3 & (b + m))


def _signed(number: int) -> int:
    return (number ^ 1 << 31) - (1 << 31)


def _program(random_: random.Random, depth: int = 0) -> list[Statement]:
    return [_statement(random_, depth) for _ in range(random_.randint(2, 4))]


def _statement(random_: random.Random, depth: int) -> Statement:
    kind = random_.choice(["set", "set", "set", "sum", "if", "for", "select"]) if depth < 3 else "set"
    a, b, target = random_.choice("abcte"), random_.choice("abcte"), random_.randrange(VARIABLES)
    if kind == "set":
        return kind, target, random_.choice(list(_BINARY)), a, b
    if kind == "sum":
        return kind, target, a, random_.choice([1, 64, 1 << 31, _MASK]), b, random_.randrange(WORDS)
    test = random_.choice(list(_TESTS))
    if kind == "select":
        return kind, target, test, a, b
    inner = _program(random_, depth + 1)
    if kind == "if":
        return kind, test, a, b, inner, _program(random_, depth + 1)
    return kind, a, random_.choice([None, test]), b, inner


def _emit(k: nvb.KernelBuilder, program: list[Statement], names: dict[str, Any]) -> None:
    read = lambda name: names[name] + 0  # noqa: E731
    for one in program:
        match one:
            case ("set", target, operation, a, b):
                names["abc"[target]].set(_BINARY[operation][0](read(a), read(b)))
            case ("sum", target, a, m, b, n):
                names["abc"[target]].set(_sum(read(a), m, read(b), n))
            case ("select", target, test, a, b):
                names["abc"[target]].set(k.select(_TESTS[test][0](read(a), read(b)), read(a), read(b)))
            case ("if", test, a, b, yes, no):
                with k.if_(_TESTS[test][0](read(a), read(b))):
                    _emit(k, yes, names)
                with k.else_():
                    _emit(k, no, names)
            case ("for", a, leaves, b, inner):
                with k.range((read(a) & 3).bitcast(s32)):
                    if leaves is not None:
                        k.break_if(_TESTS[leaves][0](read(a), read(b)))
                    _emit(k, inner, names)


def _interpret(program: list[Statement], names: dict[str, int]) -> None:
    for one in program:
        match one:
            case ("set", target, operation, a, b):
                names["abc"[target]] = _BINARY[operation][1](names[a], names[b]) & _MASK
            case ("sum", target, a, m, b, n):
                names["abc"[target]] = _sum(names[a], m, names[b], n) & _MASK
            case ("select", target, test, a, b):
                names["abc"[target]] = names[a] if _TESTS[test][1](names[a], names[b]) else names[b]
            case ("if", test, a, b, yes, no):
                _interpret(yes if _TESTS[test][1](names[a], names[b]) else no, names)
            case ("for", a, leaves, b, inner):
                for _ in range(names[a] & 3):
                    if leaves is not None and _TESTS[leaves][1](names[a], names[b]):
                        break
                    _interpret(inner, names)


def _stored(number: int) -> Iterator[int]:
    yield from (number >> shift & WORDS - 1 for shift in (0, 12, 20))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(60))
def test_every_thread_computes_what_python_does(seed: int) -> None:
    program = _program(random.Random(seed))
    k = nvb.KernelBuilder("k", "sm_90a", threads=THREADS, parameters=[nvb.Parameter("e", u32)])
    words = k.shared(u32, WORDS)
    names: dict[str, Any] = {"t": k.thread_id().bitcast(u32), "e": k.arguments[0]}
    names |= {name: k.var(names["t"] * number, u32) for name, number in zip("abc", (1, 77, 0), strict=True)}
    _emit(k, program, names)
    for name in "abc":
        for shift in (0, 12, 20):
            words[names[name] >> shift & WORDS - 1] = names["t"]
    k.finish(check=False)
    subject = subject_of(k.core, k.signature)
    code, seen = compiled(subject), Seen()
    run(code, Launch(k.target, THREADS, 1, 1, code.shared), lambda _: seen, {"e": 12345 + seed})
    base = code.shared.start
    for thread in range(THREADS):
        expected = {"t": thread, "e": 12345 + seed, "a": thread, "b": thread * 77 & _MASK, "c": 0}
        _interpret(program, expected)
        found = [(one - base) // 4 for one in seen.stores[thread]]
        assert found == [one for name in "abc" for one in _stored(expected[name])], (thread, program)


def test_the_programs_part_lanes() -> None:
    """Otherwise the test above would show little: most of them have branches whose lanes go both ways."""
    parted = 0
    for seed in range(60):
        program = _program(random.Random(seed))
        ends = set()
        for thread in range(32):
            names = {"t": thread, "e": 12345 + seed, "a": thread, "b": thread * 77, "c": 0}
            _interpret(program, names)
            ends.add(names["c"])
        parted += len(ends) > 4
    assert parted > 20


def test_a_kernel_over_the_budget_is_run_once() -> None:
    """Another order of warps would cost as much, and would not come further."""
    k = nvb.KernelBuilder("long", "sm_90a", threads=THREADS)
    words = k.shared(u32, THREADS)
    at = k.var(k.thread_id())
    with k.range(1 << 20):
        at.set(at * 5 + 1)
    words[at & (THREADS - 1)] = 1
    k.finish(check=False)
    runs: list[Launch] = []

    def make(launch: Launch) -> Run:
        runs.append(launch)
        return Run(launch)

    check(subject_of(k.core, k.signature), make)
    assert len(runs) == 1
