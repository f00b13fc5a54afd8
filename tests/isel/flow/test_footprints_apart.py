"""Which threads share no byte, or share bytes within a scope alone, against the bytes of each thread, one by one."""

from __future__ import annotations

import random

import pytest

from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.isel.flow.accesses import AccessKind, Run
from nvbackend.isel.flow.dataflow import Site
from nvbackend.isel.flow.footprints import Footprints
from nvbackend.isel.flow.memory_uses import symbol_text
from nvbackend.isel.machine.function import MachineInstr, MemoryTouch, MemoryUse
from tests.isel.flow.test_footprints import BUFFER, MATRICES, NUMBERS, ROWS, SAME, THREADS, UNKNOWN, function

SIZES = {Scope.THREAD: 1, Scope.WARP: 32, Scope.WARPGROUP: 128}
OWN = {
    *(("st.shared", "address"), ("ld.shared", "address"), ("cp.async", "destination")),
    *(("cp.async.bulk", "destination"), ("tcgen05.mma", "barrier")),
}
"""What each thread does at its own address; all else a warp does together, or at a place that a descriptor says."""
Part = tuple[MachineInstr, MemoryTouch, dict[str, int]]
Bytes = dict[int, set[int]]
"""The bytes that each thread may access."""


def part(draw: random.Random, common: dict[str, int]) -> Part:
    """An access of ordinary code; now and then one of rows of matrices, or one of which something is not known."""
    names = draw.sample([*NUMBERS], draw.randint(0, 2))
    terms = {**{name: draw.choice((4, 4, 12, 16)) for name in names}, **common}
    odd = draw.random()
    if odd < 0.03:
        terms[UNKNOWN] = 4
    elif odd < 0.06:
        terms[SAME] = terms.get(SAME, 0) + 8
    matrix = draw.choice(MATRICES)
    kinds = [(matrix.opcode, matrix, MemoryUse.READ, "address")] if odd < 0.2 else ROWS if odd < 0.4 else ROWS[:2]
    opcode, row, use, operand = draw.choice(kinds)
    size = None if 0.4 < odd < 0.43 else draw.choice((4, 8, 20))
    touch = MemoryTouch(BUFFER, use, operand, draw.choice((0, 0, 4, 100)), symbol_text(terms), size)
    return MachineInstr(opcode, row, memory=(touch,)), touch, terms


def bytes_of(parts: list[Part], threads: int) -> tuple[int, Bytes] | None:
    """The factor of what is the same in all, and the bytes; None where an access may be anywhere."""
    factors, found = set(), {thread: set[int]() for thread in range(THREADS) if threads >> thread & 1}
    for instr, touch, terms in parts:
        size = 16 if instr.row in MATRICES else touch.bytes  # a row is 16 bytes in all formats, PTX ISA 9.7.14.5.15
        is_own = instr.row in MATRICES or (instr.opcode, touch.operand) in OWN
        if UNKNOWN in terms or size is None or not is_own:
            return None
        factors.add(terms.get(SAME, 0))
        for thread, its in found.items():
            start = touch.offset + sum(NUMBERS[name][thread] * by for name, by in terms.items() if name in NUMBERS)
            its |= {*range(start, start + size)}
    return (factors.pop(), found) if len(factors) == 1 else None


@pytest.mark.parametrize("seed", range(3))
def test_threads_that_share_no_byte_or_only_near_ones(seed: int) -> None:
    seen = set()
    for number in range(150):
        draw = random.Random(1000 * seed + number)
        common = draw.choice(({}, {}, {SAME: 1024}))
        sides = [[part(draw, common) for _ in range(draw.randint(1, 2))] for _ in range(2)]
        if draw.random() < 0.3:
            sides[1] = sides[0]
        crowds = [draw.choice((0xFFFF << draw.randint(0, 80), 1 << draw.randint(0, 95), (1 << 96) - 1)) for _ in "ab"]
        if draw.random() < 0.5:
            crowds[1] &= ~crowds[0]
        runs = [
            Run(index, AccessKind.READ, BUFFER, [(Site(index, "b", instr), touch) for instr, touch, _ in parts])
            for index, parts in enumerate(sides)
        ]
        known = [bytes_of(parts, crowd) for parts, crowd in zip(sides, crowds, strict=True)]
        footprints = Footprints(function())
        first, second = known
        pairs: list[tuple[int, int]] | None = None
        if first is not None and second is not None and first[0] == second[0]:
            pairs = [(one, two) for one, its in first[1].items() for two, others in second[1].items() if its & others]
        arguments = runs[0], crowds[0], runs[1], crowds[1]
        apart = pairs == []
        assert footprints.are_apart(*arguments) is apart, number
        seen.add(apart)
        for scope, size in SIZES.items():
            within = pairs is not None and all(one // size == two // size for one, two in pairs)
            assert footprints.are_within(scope, *arguments) is within, (number, scope)
            seen.add((scope, within))
    assert len(seen) == 8
