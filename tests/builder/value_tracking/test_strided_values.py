"""Conditions on the indices of CTAs and threads: which of them are the same in a whole cluster, CTA or warp.

The witness computes the condition in Python for each thread of small grids. What differs in no group is not told.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nvbackend import i32, u8, u16, u32, u64
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.diagnostics import DiagnosticError
from nvbackend.signature import Parameter, Scalar

THREADS = 128
MOST_CLUSTERS = 4
"""Of the grids that are tried, along x; along y it is half of it."""
PARAMETER = range(1, 7)

CLUSTERS = {
    (2, 1, 1): (
        "b // 2 < q",
        "b >> 1 == q",
        "b < 4",
        "b < 3",
        "b <= 3",
        "b <= 4",
        "b > 1",
        "b != 2",
        "b >= 2 * q",
        "b < 2 * q + 1",
        "b % 2 == 0",
        "b % 4 < 2",
        "b % 4 >= 3",
        "(b & 3) < 2",
        "(b & -2) == 2",
        "(b & 1) == 0",
        "(b | 1) < q",
        "(b ^ 1) // 2 < q",
        "(b ^ 2) < 2",
        "b // 3 < q",
        "b // 4 < q",
        "b // 6 == 0",
        "(b + 2) // 2 < q",
        "(b + 1) // 2 < q",
        "(b - rank) < q",
        "b % 2 == rank",
        "b * 3 < 12",
        "b * 3 < 9",
        "b << 1 < 4 * q",
        "b < blocks - 2",
        "b < blocks - 1",
        "b == blocks - 1",
        "b // 2 == blocks // 2 - 1",
        "b // 2 % 2 == q % 2",
        "by * blocks + b < 2 * q",
        "by * blocks + b < 2 * q + 1",
        "g < 256 * q",
        "g // 256 < q",
        "g // 128 < q",
        "g < 128",
        "cluster < q",
        "byte(b * 256) == 0",
        "byte(b * 256) < q",
        "byte(b * 128) == 0",
        "byte(b * 64) < q",
        "byte(b // 2 * 64) < q",
        "byte(half(b // 2 * 5)) < q",
        "half(byte(b * 255)) < q",
        "half(b % 2 * 65536 + 7) < q",
        "byte(b * 257 - b) == 0",
        "byte(b * 257 - b * 2) == 0",
        "byte(b % 2 * 256 + b // 2 * 17) < q",
        "byte(b % 2 * 255 + b // 2 * 17) < q",
        "byte(b // 2 * 3 + b % 2 * 512) < 4 * q",
        "half(byte(b % 2 * 256 + b // 2 * 17)) < q",
        "(b // 2 * 3 + b % 2 * 40) % 20 < q",
        "(b // 2 * 3 + b % 2 * 41) % 20 < q",
        "(b - 2) // 2 < q",
        "(b - 1) // 2 < q",
        "word(b * 3) // 6 < q",
        "word(b * 3) // 3 < q",
        "half(b * 65536) == 0",
        "half(b * 32768) == 0",
    ),
    (1, 2, 1): ("b < q", "by < q", "by // 2 < q", "by % 2 == 0", "by * blocks + b < 2 * q"),
    (2, 2, 1): ("b // 2 + by // 2 < q", "b < 2", "by < 3", "by < 2", "b // 2 * 4 + rank < 4 * q"),
    (3, 1, 1): (
        "b // 3 < q",
        "(b - 3) // 3 < q",
        "(b - 4) // 3 < q",
        "(b - 3) // 6 < q",
        "(b - 6) % 6 < 3",
        "(b - 6) % 6 < 2",
        "b < 3 * q",
        "b < 4",
        "b % 6 < 3",
        "b % 2 == 0",
        "b < blocks - 3",
    ),
    (4, 1, 1): ("b < 2", "b // 2 % 2 == 0", "b // 4 < q", "(b & 4) == 4", "(b & 6) == 4", "b < 8"),
}
CTAS = ("g // 128 < q", "g < 128 * q", "g // 256 < q", "g // 32 < q", "g < 129", "g % 128 == t", "g % 128 < q * 32")
LOOPS = (("g // 32", "q", 1), ("g // 16", "q", 1), ("g // 64 * 2", "16", 2), ("g % 64 // 32", "q", 1), ("t", "q", 32))
VARIABLES = (("b", 2, "v // 2 < q"), ("b", 1, "v // 2 < q"), ("b + 1", 2, "v // 2 < q"), ("b", "blocks", "v < 2 * q"))
WARPS = ("g // 32 < q", "g < 32 * q", "g // 16 < q", "g % 64 < 32", "g % 64 < 33", "(g | 31) < 32 * q")
CUTS = {"byte": u8, "half": u16, "word": u32}
"""What cuts a number to its lowest bits, as the conditions call it."""


@dataclass(frozen=True)
class Place:
    """One thread, as the conditions call what it knows of itself."""

    b: int
    by: int
    blocks: int
    cluster: int
    rank: int
    t: int
    q: int

    def names(self) -> dict[str, object]:
        cuts = {name: lambda number, bits=element.bits: number % (1 << bits) for name, element in CUTS.items()}
        return {**vars(self), **cuts, "g": self.b * THREADS + self.t}


def places(shape: tuple[int, int, int]) -> Iterator[list[Place]]:
    """The threads of each cluster, of grids of several sizes."""
    x, y, _ = shape
    for along, across, q in itertools.product(range(1, MOST_CLUSTERS + 1), range(1, MOST_CLUSTERS // 2 + 1), PARAMETER):
        for cx, cy in itertools.product(range(along), range(across)):
            yield [
                Place(cx * x + rank % x, cy * y + rank // x, along * x, cx, rank, thread, q)
                for rank in range(x * y)
                for thread in (0, 15, 16, 31, 32, 33, 63, 64, 127)
            ]


def is_parted(condition: str, shape: tuple[int, int, int] = (1, 1, 1), size: int | None = None) -> bool:
    """Whether the threads of some cluster, or of some `size` threads of it, find it different."""
    code = compile(condition, condition, "eval")
    for together in places(shape):
        groups: dict[object, set[object]] = {}
        for place in together:
            group = None if size is None else (place.rank, place.t // size)
            groups.setdefault(group, set()).add(eval(code, place.names()))
        if any(len(answers) > 1 for answers in groups.values()):
            return True
    return False


def names_in(k: KernelBuilder) -> dict[str, Any]:
    """What the conditions are written with, in a kernel."""
    b, t = k.block_id(), k.thread_id()
    known = {"b": b, "by": k.block_id("y"), "blocks": k.block_count(), "cluster": k.cluster.id(), "t": t}
    cuts = {name: lambda number, element=element: number.to(u64).to(element).to(i32) for name, element in CUTS.items()}
    return {**known, **cuts, "rank": k.cluster.rank(), "q": k.arguments[0], "g": b * THREADS + t}


def rules_of(program: Callable[[KernelBuilder], None], shape: tuple[int, int, int] = (1, 1, 1)) -> list[str]:
    """The rules that a program breaks, by what the text alone shows."""
    k = KernelBuilder("program", "sm_90a", threads=THREADS, cluster=shape, parameters=[Parameter("q", Scalar(i32))])
    return rules_in(k, program)


def rules_in(k: KernelBuilder, program: Callable[[KernelBuilder], None]) -> list[str]:
    """The same of a builder's program."""
    try:
        program(k)
        diagnostics = k.finish(check=False).diagnostics
    except DiagnosticError as error:
        diagnostics = error.diagnostics
    return [one.rule_id for one in diagnostics]


def meet_where(k: KernelBuilder, condition: Any) -> None:
    """The cluster's barrier where it holds."""
    with k.if_(condition):
        k.cluster.sync()


def told(condition: str, instruction: str, shape: tuple[int, int, int] = (1, 1, 1)) -> list[str]:
    """The rules that the instruction breaks where the condition holds."""

    def program(k: KernelBuilder) -> None:
        with k.if_(eval(condition, names_in(k))):
            {"cluster": k.cluster.sync, "cta": k.barrier.sync, "warp": k.elect}[instruction]()

    return rules_of(program, shape)


@pytest.mark.parametrize(("shape", "condition"), [(shape, each) for shape, all_ in CLUSTERS.items() for each in all_])
def test_who_comes_to_a_barrier_of_a_cluster(shape: tuple[int, int, int], condition: str) -> None:
    expected = ["cluster.divergent"] if is_parted(condition, shape) else []
    assert told(condition, "cluster", shape) == expected


@pytest.mark.parametrize("condition", CTAS)
def test_who_comes_to_a_barrier_of_a_cta(condition: str) -> None:
    assert told(condition, "cta") == (["barrier.divergent"] if is_parted(condition, size=THREADS) else [])


@pytest.mark.parametrize("condition", WARPS)
def test_who_comes_to_an_instruction_of_a_warp(condition: str) -> None:
    assert told(condition, "warp") == (["convergence.warp"] if is_parted(condition, size=32) else [])


@pytest.mark.parametrize(("start", "end", "step"), LOOPS)
def test_who_makes_each_round_of_a_loop(start: str, end: str, step: int) -> None:
    def program(k: KernelBuilder) -> None:
        known = names_in(k)
        with k.range(eval(start, known), eval(end, known), step):
            k.elect()

    rounds = f"len(range({start}, {end}, {step}))"
    assert rules_of(program) == (["convergence.warp"] if is_parted(rounds, size=32) else [])


@pytest.mark.parametrize(("start", "step", "condition"), VARIABLES)
def test_a_variable_that_counts(start: str, step: int | str, condition: str) -> None:
    """After any number of rounds."""

    def program(k: KernelBuilder) -> None:
        known = names_in(k)
        variable = k.var(eval(start, known), i32)
        with k.range(known["q"]):
            variable += eval(str(step), known)
        with k.if_(eval(condition, {**known, "v": variable.value})):
            k.cluster.sync()

    shape = (2, 1, 1)
    parted = any(is_parted(condition.replace("v", f"({start} + {step} * {n})"), shape) for n in range(4))
    assert rules_of(program, shape) == (["cluster.divergent"] if parted else [])


@pytest.mark.parametrize("divisor", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("size", [2, 3, 4])
def test_a_parameter_that_is_a_multiple(size: int, divisor: int) -> None:
    """Of the cluster's size: whole clusters come."""
    k = KernelBuilder(
        "whole", "sm_90a", threads=32, cluster=size, parameters=[Parameter("n", i32(multiple_of=divisor))]
    )
    (n,) = k.arguments
    assert rules_in(k, lambda k: meet_where(k, k.block_id() < n)) == ["cluster.divergent"] * bool(divisor % size)


def test_both_answers_are_among_them() -> None:
    for shape, conditions in CLUSTERS.items():
        assert len({is_parted(condition, shape) for condition in conditions}) == 2


numbers = st.sampled_from([1, 2, 3, 4, 6, 8])
leaves = st.sampled_from(["b", "b", "by", "rank", "blocks", "q", "t", "cluster"])
terms = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(["+", "*", "^", "|"]), inner),
        st.builds("({} {} {})".format, inner, st.sampled_from(["//", "%", "*", "+", "&", "|", ">>"]), numbers),
    ),
    max_leaves=4,
)
compared = st.builds(
    "{} {} {}".format, terms, st.sampled_from(["<", "<=", "==", "!=", ">", ">="]), st.one_of(terms, numbers.map(str))
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(CLUSTERS)), compared)
def test_what_parts_a_cluster_is_told(shape: tuple[int, int, int], condition: str) -> None:
    if is_parted(condition, shape):
        assert told(condition, "cluster", shape), condition
