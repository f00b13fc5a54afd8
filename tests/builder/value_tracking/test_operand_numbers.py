"""Operands in registers whose numbers LLVM or the builder finds out: refused by a rule, or assembled by ptxas.

LLVM writes what it folds as an immediate, and ptxas refuses some immediates that it takes in a register. Which these
are is asked of ptxas, for every operand of every row.
"""

from __future__ import annotations

import functools
import itertools

import pytest

import nvbackend as nvb
from nvbackend import i32, u8, u64
from nvbackend.codegen.ptxas import assemble as cubin_of
from nvbackend.intrinsics.catalogue import rows
from nvbackend.intrinsics.row.row import Intrinsic, RegisterClass, Row, RowOperand
from tests.support.ptxas import assemble
from tests.support.rows import compile_batch, joined, kernel_text, newest_target
from tests.support.runtime import rules

NUMBERS = (0, -1, 1, 17, 33, 255, 1 << 20, -(1 << 31))
BATCH = 64
Case = tuple[Row, RowOperand, int]


@functools.cache
def kinds() -> tuple[tuple[Row, RowOperand], ...]:
    """The integer operands that LLVM could write as immediates, one of those that differ in more than a shape."""
    found: dict[object, tuple[Row, RowOperand]] = {}
    for row in rows():
        for one in row.inputs if isinstance(row.lowering, Intrinsic) else ():
            if one.register in (RegisterClass.B16, RegisterClass.B32, RegisterClass.B64):
                found.setdefault((row.family, row.opcode, one.name), (row, one))
    return tuple(found.values())


def refused(cases: list[Case]) -> list[Case]:
    """The cases that ptxas, or LLVM, refuses with the number as a constant."""
    jobs = [
        (kernel_text(row, f"kernel{place}", constants={operand.name: number}), newest_target(row))
        for place, (row, operand, number) in enumerate(cases)
    ]
    texts = [one.ptx for one in compile_batch(jobs)]
    found = [case for case, text in zip(cases, texts, strict=True) if not text]
    compiled = sorted(
        (target.name, place) for place, ((_, target), text) in enumerate(zip(jobs, texts, strict=True)) if text
    )
    for target, group in itertools.groupby(compiled, key=lambda one: one[0]):
        places = [place for _, place in group]
        for start in range(0, len(places), BATCH):
            found += [cases[place] for place in _refused(target, texts, places[start : start + BATCH])]
    return found


def _refused(target: str, texts: list[str], places: list[int]) -> list[int]:
    if assemble(joined([texts[place] for place in places]), target)[0]:
        return []
    if len(places) == 1:
        return places
    middle = len(places) // 2
    return _refused(target, texts, places[:middle]) + _refused(target, texts, places[middle:])


def test_rows_say_which_numbers_ptxas_refuses() -> None:
    """Every number that ptxas does not take is one that the row does not call legal."""
    cases = [
        (row, one, number) for row, one in kinds() for number in NUMBERS if one.legal is None or number in one.legal
    ]
    assert len(cases) > 500
    assert [(row.ptx, one.name, number) for row, one, number in refused(cases)] == []


def test_no_row_restricts_more_than_ptxas() -> None:
    """An operand with legal numbers has one that ptxas refuses, so that its copy is worth an instruction."""
    limited = [(row, one) for row, one in kinds() if one.legal is not None]
    assert len(limited) == 13
    said = refused([(row, one, -1) for row, one in limited])
    assert [(row.ptx, one.name) for row, one, _ in said] == [(row.ptx, one.name) for row, one in limited]


def built(body, target: str = "sm_90a") -> nvb.CompiledKernel:
    """A part of a kernel, such as a barrier to which not all come."""

    @nvb.kernel(target, threads=128)
    def whole(k, n: i32, source: nvb.Pointer(u8, 16)):
        body(k, n, source)

    return whole.compile(check=False)


def copied(read):
    """A copy of 16 bytes that reads as many as `read` says."""

    def body(k, n, source):
        place = k.shared(u8, 16, align=16)
        k.cp_async.copy(place, source, 16, read_bytes=read(k, n))
        k.cp_async.commit_group()
        k.cp_async.wait_group(0)

    return body


FOLDED = {
    "barrier": lambda k, n, _: k.barrier.sync(k.select(n == 255, n, 255)),
    "threads": lambda k, n, _: k.barrier.sync(1, threads=k.select(n == 100, n, 100)),
    "arrive": lambda k, n, _: k.barrier.arrive(k.select(n == 16, n, 16), threads=k.select(n == 3, n, 3)),
    "not aligned": lambda k, n, _: k.barrier.sync(k.select(n == 77, n, 77), aligned=False),
    "read_bytes": copied(lambda k, n: k.select(n == 17, n, 17)),
    "branch": copied(lambda k, n: k.select(n > 0, 99, 4)),
    "square": lambda k, n, _: k.barrier.sync(((n * n & 2) ^ 2) << 3),
    "square of bytes": copied(lambda k, n: ((n * n & 2) ^ 2) << 4 | 1),
}
"""Values of which LLVM alone knows what they are: the last two may be legal or not by their bits, and are not."""


@pytest.mark.parametrize("name", FOLDED)
def test_a_number_that_llvm_folds_is_assembled(name: str) -> None:
    assert cubin_of(built(FOLDED[name]).ptx, nvb.Target.parse("sm_90a"))


CERTAIN = [
    (lambda k, n, _: k.barrier.sync((n ^ n) + 255), "barrier.id", "not 255"),
    (lambda k, n, _: k.barrier.sync((n & 3) + 20), "barrier.id", "not 20"),
    (lambda k, n, _: k.barrier.sync(n | 64), "barrier.id", "not 64"),
    (lambda k, n, _: k.barrier.sync(k.thread_id() // 32 + 14), "barrier.id", "not 16"),
    (lambda k, n, _: k.barrier.sync(1, threads=n | 1), "barrier.threads", "1 threads are not"),
    (lambda k, n, _: k.barrier.arrive(1, threads=(n & 1) << 11), "barrier.threads", "0 threads are not"),
    (copied(lambda k, n: (n & 7) + 24), "async-copy.read-bytes", "not 24"),
    (copied(lambda k, n: k.thread_id()), "async-copy.read-bytes", "not 17"),
    (lambda k, n, _: k.nanosleep((n & 15) | (1 << 20)), "nanosleep.range", str(1 << 20)),
    (
        lambda k, n, x: k.bulk.load(k.shared(u8, 64, align=128), x, (n & 1) + 8, k.shared(u64, 1, align=8)),
        "tma.bulk-size",
        "8",
    ),
    (
        lambda k, n, x: k.cache.policy_of_range(x, k.thread_id() + 256, 128, "L2::evict_last"),
        "cache.policy-range",
        "256",
    ),
    (lambda k, n, x: k.cache.policy_of_range(x, 256, k.thread_id() + 1, "L2::evict_last"), "cache.policy-range", "256"),
]


@pytest.mark.parametrize(("body", "rule", "text"), CERTAIN, ids=range(len(CERTAIN)))
def test_a_number_that_is_certainly_wrong_is_refused(body, rule: str, text: str) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        built(body)
    (said,) = caught.value.diagnostics
    assert said.rule_id == rule
    assert text in said.message
    assert said.location is not None
    assert said.location.file == __file__


def in_loop(first: int, end: int):
    def body(k, n, source):
        with k.range(first, end) as i:
            k.barrier.sync(i)

    return body


def test_the_rounds_of_a_loop() -> None:
    """Where no round has a legal number the loop is refused; where some have, the others may not be reached."""
    assert rules(lambda: built(in_loop(16, 20))) == ["barrier.id"]
    for first, end in ((0, 16), (15, 17)):
        cubin_of(built(in_loop(first, end)).ptx, nvb.Target.parse("sm_90a"))


LEGAL = [
    lambda k, n, _: k.barrier.sync(n & 15),
    lambda k, n, _: k.barrier.sync(k.thread_id() // 32),
    lambda k, n, _: k.barrier.sync(1, threads=((n & 1) << 5) | 32),
    copied(lambda k, n: n & 15),
    copied(lambda k, n: (n & 1) << 4),
    copied(lambda k, n: k.thread_id() & 15),
]


@pytest.mark.parametrize("body", LEGAL, ids=range(len(LEGAL)))
def test_what_is_certainly_legal_costs_no_copy(body) -> None:
    kernel = built(body)
    cubin_of(kernel.ptx, nvb.Target.parse("sm_90a"))
    assert "begin inline asm" not in kernel.ptx
