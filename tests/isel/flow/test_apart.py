"""Crowds of threads whose accesses share no byte, or bytes of one warp alone: against what each thread may access."""

from __future__ import annotations

import random

import pytest

from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.isel.flow.accesses import AccessKind, Run
from nvbackend.isel.flow.dataflow import Site
from nvbackend.isel.flow.footprints import Footprints
from nvbackend.isel.flow.memory_uses import symbol_text
from nvbackend.isel.machine.function import MachineInstr, MemoryTouch
from tests.isel.flow.test_footprints import BUFFER, MATRICES, NUMBERS, ROWS, SAME, THREADS, UNKNOWN, function

DESCRIPTORS = ("a_desc", "b_desc", "source")
"""Operands that describe a whole matrix."""
SIZES = {Scope.THREAD: 1, Scope.WARP: 32, Scope.WARPGROUP: 128}
Access = tuple[MachineInstr, MemoryTouch, dict[str, int]]


def access(chance: random.Random, *, common: bool) -> Access:
    """An instruction at a place that threads have of their own, mostly."""
    opcode, row, use, operand = chance.choice([*ROWS, *ROWS[:4] * 16, ("ldmatrix", MATRICES[0], *ROWS[0][2:])])
    terms = {chance.choice([*NUMBERS]): chance.choice((5, 8, 16))}
    if common:
        terms[SAME] = 512
    if chance.random() < 0.06:
        terms = chance.choice(({**terms, UNKNOWN: 4}, {**terms, SAME: 3}))
    size = None if chance.random() < 0.06 else chance.choice((3, 4, 8, 40))
    touch = MemoryTouch(BUFFER, use, operand, chance.choice((0, 0, 4, 512, 1600)), symbol_text(terms), size)
    return MachineInstr(opcode, row, memory=(touch,)), touch, terms


def possible(accesses: list[Access], threads: int) -> set[tuple[int, int, int]] | None:
    """The bytes that each thread may access, with the factor of what is the same in all; None for any bytes."""
    found = set()
    for instr, touch, terms in accesses:
        size = 16 if instr.opcode == "ldmatrix" else touch.bytes
        together = instr.row is not None and (".sync" in instr.row.ptx or touch.operand in DESCRIPTORS)
        if (together and instr.opcode != "ldmatrix") or size is None or UNKNOWN in terms:
            return None
        for thread in range(THREADS):
            if threads >> thread & 1:
                start = touch.offset + sum(
                    NUMBERS[name][thread] * factor for name, factor in terms.items() if name != SAME
                )
                found |= {(terms.get(SAME, 0), start + byte, thread) for byte in range(size)}
    return found


@pytest.mark.parametrize("seed", range(3))
def test_no_byte_of_one_is_one_of_the_others(seed: int) -> None:
    chance, seen = random.Random(seed), {True: 0, False: 0}
    for _ in range(100):
        common, crowds = chance.choice(((False,), (False,), (True, True), (False, True))), [0, 0]
        for thread in range(THREADS):
            side = chance.randrange(2) if seed == 0 else thread // (16 + 8 * seed) % 2
            crowds[side] |= 1 << thread
        if chance.random() < 0.3:
            crowds[1] |= 1 << chance.randrange(THREADS)
        drawn = [[access(chance, common=each) for each in common] for _ in crowds]
        runs = [
            Run(number, AccessKind.WRITE, BUFFER, [(Site(at, "b", each[0]), each[1]) for at, each in enumerate(side)])
            for number, side in enumerate(drawn)
        ]
        footprints = Footprints(function())
        sides = (runs[0], crowds[0], runs[1], crowds[1])
        mine, others = (possible(each, threads) for each, threads in zip(drawn, crowds, strict=True))
        if mine is None or others is None or len({factor for factor, *_ in mine | others}) > 1:
            assert not footprints.are_apart(*sides), drawn
            assert not any(footprints.are_within(scope, *sides) for scope in SIZES), drawn
            continue
        theirs: dict[int, list[int]] = {}
        for _, byte, thread in others:
            theirs.setdefault(byte, []).append(thread)
        meeting = {(thread, other) for _, byte, thread in mine for other in theirs.get(byte, ())}
        assert footprints.are_apart(*sides) == (not meeting), (crowds, drawn)
        for scope, size in SIZES.items():
            expected = all(a // size == b // size for a, b in meeting)
            assert footprints.are_within(scope, *sides) == expected, (scope, crowds, drawn)
            seen[expected and bool(meeting)] += 1
    assert min(seen.values()) > 5, seen
