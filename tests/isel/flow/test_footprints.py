"""Which threads access which bytes, and where an access begins, against what each thread does, one by one.

The run-time values of a place are made up: a few have a number in each thread, a few count rounds, one is the same in
all threads, and of one nobody knows anything.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from nvbackend.intrinsics.copy import cp_async, matrix_move, tcgen05_memory, tma_bulk
from nvbackend.intrinsics.mma import tcgen05, wgmma, wmma
from nvbackend.intrinsics.row.row import GUARD, Row
from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.isel.flow.accesses import AccessKind, Run
from nvbackend.isel.flow.dataflow import Site
from nvbackend.isel.flow.footprints import ByteAccess, Footprints, Overlap, _meetings, _merged
from nvbackend.isel.flow.memory_uses import symbol_text
from nvbackend.isel.machine.function import (
    Crew,
    MachineFunction,
    MachineInstr,
    MemoryObject,
    MemoryTouch,
    MemoryUse,
    RunTimeValues,
)
from nvbackend.isel.protocols.shared.bounds import _Bounds
from nvbackend.isel.target.target import Target

THREADS = 96
BUFFER = MemoryObject(1, "buffer", "shared", 4096, 4)
NUMBERS: dict[str, list[int]] = {
    "thread": [*range(THREADS)],
    "lane": [thread % 32 for thread in range(THREADS)],
    "warp": [thread // 32 for thread in range(THREADS)],
    "back": [95 - thread for thread in range(THREADS)],
    "three": [3] * THREADS,
}
ROUNDS = {"after": (0, 3), "counter": (5, 1), "zero": (2, 2)}
SAME, UNKNOWN = "same", "unknown"


class Values(RunTimeValues):
    """What is known of the values, by the names above."""

    def numbers(self, name: str) -> Sequence[int] | None:
        return NUMBERS.get(name)

    def counted(self, name: str) -> tuple[int, int] | None:
        return ROUNDS.get(name)

    def is_same(self, name: str) -> bool:
        return name == SAME

    def scope(self, name: str) -> Scope:
        return Scope.CTA

    def array(self, name: str) -> None:
        return None


def function() -> MachineFunction:
    return MachineFunction("f", Target.parse("sm_90a"), attributes={"threads": THREADS}, values=Values())


# -- where an access begins -------------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(4))
def test_the_lowest_and_the_highest_start_of_each_thread(seed: int) -> None:
    for number in range(100):
        chance = random.Random(100 * seed + number)
        names = chance.sample([*NUMBERS, *ROUNDS, UNKNOWN], chance.randint(1, 4))
        terms = {name: chance.choice((-8, -1, 1, 1, 2, 16)) for name in names}
        found = _Rounds(function())._start("b", symbol_text(terms))
        if UNKNOWN in terms:
            assert found is None
            continue
        assert found is not None
        for thread in range(THREADS):
            starts = [0]
            for name, factor in terms.items():
                ways = [NUMBERS[name][thread]] if name in NUMBERS else ROUNDS[name]
                starts = [start + factor * way for start in starts for way in ways]
            assert (found.lowest[thread], found.highest[thread]) == (min(starts), max(starts))
        assert (found.least, found.most) == (min(found.lowest), max(found.highest))
        first, last = sorted(chance.sample(range(-200, 400), 2))
        ends = enumerate(zip(found.lowest, found.highest, strict=True))
        assert found.outside(first, last) == [one for one, (low, high) in ends if low < first or high > last]


class _Rounds(_Bounds):
    """Of an access that is run in every round."""

    def _runs_all_rounds(self, block: str, counters: Sequence[str]) -> bool:
        return True


# -- what two warps share ---------------------------------------------------------------------------------------------

MMA = next(row for row in wgmma.rows() if row.axes.get("shape") == (64, 64, 16) and not row.axes["a_in_registers"])
MATRICES = [row for row in matrix_move.rows() if row.opcode in ("ldmatrix", "stmatrix")]
COPY = next(row for row in cp_async.rows() if row.opcode == "cp.async")
ALLOC = next(row for row in tcgen05_memory.rows() if row.opcode == "tcgen05.alloc")
A, C = (
    next(row for row in wmma.rows() if row.opcode == f"wmma.load.{one}" and row.axes["shape"] == (16, 16, 16))
    for one in "ac"
)
ROWS: list[tuple[str, Row | None, MemoryUse, str]] = [
    ("st.shared", None, MemoryUse.WRITE, "address"),
    ("ld.shared", None, MemoryUse.READ, "address"),
    ("cp.async", COPY, MemoryUse.WRITE, "destination"),
    ("cp.async.bulk", tma_bulk.load_bulk(), MemoryUse.ASYNC_WRITE, "destination"),
    ("tcgen05.cp", tcgen05_memory.cp("128x256b"), MemoryUse.ASYNC_READ, "source"),
    ("tcgen05.mma", tcgen05.mma("f16"), MemoryUse.ASYNC_READ, "a_desc"),
    ("tcgen05.mma", tcgen05.mma("f16"), MemoryUse.SYNCHRONIZE, "barrier"),
    ("wgmma.mma_async", MMA, MemoryUse.ASYNC_READ, "a_desc"),
    ("wgmma.mma_async", MMA, MemoryUse.ASYNC_READ, "b_desc"),
    ("tcgen05.alloc", ALLOC, MemoryUse.WRITE, "address"),
    *((row.opcode, row, MemoryUse.READ, "address") for row in (A, C)),
]
EACH = ("st.shared", "ld.shared", "cp.async")
LEAST = 16


def access(chance: random.Random) -> tuple[MachineInstr, MemoryTouch]:
    """An instruction at a place; of matrices sometimes the dense one, sometimes one with gaps."""
    matrix = chance.choice(MATRICES)
    opcode, row, use, operand = chance.choice([*ROWS, (matrix.opcode, matrix, MemoryUse.READ, "address")])
    size = chance.choice((4, 16, 64)) if opcode in EACH else chance.choice((None, 8, 512, 1024, 1536))
    names = chance.sample([*NUMBERS, *NUMBERS, *NUMBERS, SAME, UNKNOWN], chance.randint(0, 2))
    uniform = {name: factor for name, factor in ((SAME, 1024), ("warp", 64)) if chance.random() < 0.3}
    terms = {name: chance.choice((4, 4, 16)) for name in names} if chance.random() < 0.5 else uniform
    offset = chance.choice((0, 0, 0, 0, 0, 4, 64))
    operands = {GUARD: "%p"} if chance.random() < 0.03 else {}
    touch = MemoryTouch(BUFFER, use, operand, offset, symbol_text(terms), size)
    return MachineInstr(opcode, row, operands=operands, memory=(touch,)), touch


def crew(chance: random.Random) -> Crew:
    warps = [(1 << 32) - 1 << 32 * warp for warp in range(3)]
    bits = sum(chance.sample(warps, chance.choice((1, 2, 3, 3))))
    if chance.random() < 0.2:
        bits = chance.choice((1, 1 << 40, 0xFF << 28))
    return Crew(bits, chance.random() < 0.15 and bits in (*warps, sum(warps)), "b")


def accessed(instr: MachineInstr, touch: MemoryTouch, by: Crew) -> Iterator[tuple[int, range, int | None]]:
    """Threads of which one accesses these bytes, from what is the same for all of them on."""
    terms = dict(_terms(touch.symbol))
    if UNKNOWN in terms or instr.operands:
        return
    base = terms.get(SAME)
    own = {name: factor for name, factor in terms.items() if name != SAME}
    starts = [touch.offset + sum(f * NUMBERS[name][t] for name, f in own.items()) for t in range(THREADS)]
    for warp in range(3):
        lanes = [*range(32 * warp, 32 * warp + 32)]
        whole = sum(1 << lane for lane in lanes)
        together = len({starts[lane] for lane in lanes}) == 1
        size = by_thread(instr, touch)
        if size is not None:
            if not by.elected:
                for lane in lanes:
                    if by.bits >> lane & 1:
                        yield 1 << lane, range(starts[lane], starts[lane] + size), base
            elif by.bits & whole and together:
                yield whole, range(starts[lanes[0]], starts[lanes[0]] + size), base
        elif by.bits & whole == whole and not by.elected:
            for start, extent in by_warp(instr, touch, [starts[lane] for lane in lanes], together=together):
                yield whole, range(start, start + extent), base


def _terms(symbol: str) -> Iterator[tuple[str, int]]:
    for part in symbol.split(" + ") if symbol else ():
        name, factor = part.split("*")
        yield name, int(factor)


def by_thread(instr: MachineInstr, touch: MemoryTouch) -> int | None:
    if instr.opcode in EACH:
        return touch.bytes
    if instr.opcode == "cp.async.bulk":
        return touch.bytes or LEAST
    described = instr.opcode in ("tcgen05.cp", "tcgen05.mma")
    return LEAST if described and touch.use is MemoryUse.ASYNC_READ else None


def by_warp(instr: MachineInstr, touch: MemoryTouch, starts: list[int], *, together: bool) -> Iterator[tuple[int, int]]:
    if instr.opcode in ("ldmatrix", "stmatrix"):
        assert instr.row is not None
        if instr.row.axes["shape"] == "m8n8":
            yield from ((start, LEAST) for start in starts[: 8 * int(str(instr.row.axes["count"]))])
    elif not together or instr.row is None:
        return
    elif instr.opcode == "tcgen05.alloc":
        yield starts[0], touch.bytes or 1
    elif instr.opcode == "wgmma.mma_async" and touch.operand == "b_desc":
        yield starts[0], LEAST
    elif instr.opcode.startswith("wmma."):
        # 16 x 16 elements: of f16 in 512 bytes, of f32 in 1024. What is more has gaps between the rows.
        dense = 256 * (4 if instr.opcode == "wmma.load.c" and "f32" in instr.row.ptx else 2)
        yield starts[0], touch.bytes if touch.bytes is not None and touch.bytes <= dense else 1


Accesses = list[tuple[MachineInstr, MemoryTouch]]


def run_of(accesses: Accesses) -> Run:
    """A run of these accesses, one instruction each."""
    sites = [(Site(number, "b", instr), touch) for number, (instr, touch) in enumerate(accesses)]
    return Run(0, AccessKind.READ, BUFFER, sites)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("most", [1, 4])
@pytest.mark.parametrize("seed", range(4))
def test_two_warps_meet_in_a_byte(seed: int, most: int) -> None:
    """Or, of two CTAs whose memory is at the same place, any two threads."""
    met = 0
    for number in range(150 // most):
        chance = random.Random(150 * seed + number)
        ours, others = ([access(chance) for _ in range(chance.randint(1, most))] for _ in range(2))
        by, also = crew(chance), crew(chance)
        inside = chance.choice((-1, -1, -1, (1 << 64) - 1, (1 << 64) - 1 << 32))
        fixed = chance.random() < 0.2
        first, second = run_of(ours), run_of(others)
        shared = [
            (low(mine), low(theirs), max(bytes_.start, its.start), base, mine | theirs)
            for one in ours
            for mine, bytes_, base in accessed(*one, by)
            for other in others
            for theirs, its, same in accessed(*other, also)
            if bytes_.start < its.stop and its.start < bytes_.stop and base == same
        ]
        expected = {
            (mine, theirs, byte)
            for mine, theirs, byte, base, threads in shared
            if not (fixed and base is not None) and mine // 32 != theirs // 32 and threads | inside == inside
        }
        footprints = Footprints(function())
        reached_bytes = [bytes_ for one in ours for _, bytes_, base in accessed(*one, by) if base is None]
        edges = {end for bytes_ in reached_bytes for end in (bytes_.start, bytes_.stop)}
        for start in (chance.randrange(-16, 256, 4), min(edges, default=0), max(edges, default=0)):
            low_end, high_end = chance.choice([(start, start + 4), (start - 4096, start), (start, start + 4096)])
            reached = any(bytes_.start < high_end and low_end < bytes_.stop for bytes_ in reached_bytes)
            assert footprints.reaches(first, by, low_end, high_end) is reached
        met += is_one_of(footprints.overlap(first, by, second, also, inside, fixed), expected)
        met += is_one_of(
            footprints.common(first, by, Footprints(function()), second, also), {one[:3] for one in shared}
        )
    assert met > 10


@pytest.mark.parametrize("same_warp", [False, True])
def test_accesses_of_many_lengths_meet_in_each_byte_that_they_share(same_warp: bool) -> None:
    """Long ones meet what begins far after them, and what ends where another begins meets it in none."""
    seen = 0
    for seed in range(200):
        chance = random.Random(seed)
        ours, others = (
            [
                ByteAccess(start, start + chance.choice((1, 2, 7, 40)), 1 << chance.randrange(THREADS))
                for start in chance.choices(range(60), k=chance.randint(0, 8))
            ]
            for _ in range(2)
        )
        inside = chance.choice((-1, (1 << 64) - 1))
        expected = [
            (
                low(one.threads),
                low(other.threads),
                min(byte for byte in range(one.start, one.end) if byte >= other.start),
            )
            for one in ours
            for other in others
            if {*range(one.start, one.end)} & {*range(other.start, other.end)}
            if same_warp or low(one.threads) // 32 != low(other.threads) // 32
            if (one.threads | other.threads) & ~inside == 0
        ]
        found = _meetings(ours, others, inside, same_warp=same_warp)
        assert sorted((one.first, one.second, one.byte) for one in found) == sorted(expected)
        seen += len(expected)
    assert seen > 300


def is_one_of(found: Overlap | None, expected: set[tuple[int, int, int]]) -> bool:
    """Whether there is one; it is one of those `expected`, where there are any."""
    assert (found is None) is (not expected)
    assert found is None or (found.first, found.second, found.byte) in expected
    return found is not None


def test_an_operand_without_an_extent_begins_somewhere() -> None:
    """The second operand of wgmma is read by all warps from its first byte on; of the first each reads its own rows."""
    touch = MemoryTouch(BUFFER, MemoryUse.ASYNC_READ, "b_desc", 0, "", None)
    store = MemoryTouch(BUFFER, MemoryUse.WRITE, "address", 0, "", 4)
    every, one = Crew((1 << THREADS) - 1, elected=False, anchor="b"), Crew(1, elected=False, anchor="b")
    writes = Run(1, AccessKind.WRITE, BUFFER, [(Site(1, "b", MachineInstr("st.shared")), store)])
    for operand, meets in (("b_desc", True), ("a_desc", False)):
        reads = Run(
            0,
            AccessKind.MULTIPLY,
            BUFFER,
            [(Site(0, "b", MachineInstr(MMA.opcode, MMA)), replace(touch, operand=operand))],
        )
        found = Footprints(function()).overlap(reads, every, writes, one, -1, fixed=False)
        assert (found is not None) is meets


def low(threads: int) -> int:
    return next(thread for thread in range(THREADS) if threads >> thread & 1)


def test_an_access_of_a_warp_without_an_extent_is_one_byte() -> None:
    touch = MemoryTouch(BUFFER, MemoryUse.WRITE, "address", 0, "", None)
    every = Crew((1 << THREADS) - 1, elected=False, anchor="b")
    writes = Run(0, AccessKind.WRITE, BUFFER, [(Site(0, "b", MachineInstr(ALLOC.opcode, ALLOC)), touch)])
    for offset in range(3):
        store = MemoryTouch(BUFFER, MemoryUse.WRITE, "address", offset, "", 1)
        other = Run(1, AccessKind.WRITE, BUFFER, [(Site(1, "b", MachineInstr("st.shared")), store)])
        found = Footprints(function()).overlap(writes, every, other, every, -1, fixed=False)
        assert (found is not None) is (offset == 0)


@pytest.mark.parametrize(
    ("edges", "block", "counters", "expected"),
    [
        ({"a": "b", "b": ""}, "b", "a", False),  # counts, and no loop shows it
        ({"a": "b", "b": "bc", "c": ""}, "b", "b", True),
        ({"a": "b", "b": "bc", "c": ""}, "c", "b", False),
        ({"a": "b", "b": "bc", "c": ""}, "b", "bb", False),  # two counters of one loop
        ({"a": "be", "b": "cd", "c": "b", "d": "", "e": ""}, "c", "b", True),
        ({"a": "be", "b": "cd", "c": "be", "d": "", "e": ""}, "c", "b", False),  # may leave from inside
        ({"a": "b", "b": "ce", "c": "cd", "d": "b", "e": ""}, "c", "bc", True),
        ({"a": "b", "b": "ce", "c": "cd", "d": "b", "e": ""}, "d", "b", True),
        ({"a": "b", "b": "fe", "f": "cd", "c": "cd", "d": "b", "e": ""}, "c", "bc", False),  # not in every round
    ],
)
def test_what_is_run_in_every_round_of_its_counters(
    edges: dict[str, str], block: str, counters: str, expected: bool
) -> None:
    whole = function()
    for name, successors in edges.items():
        whole.block(name).successors = [*successors]
    names = [f"i{index}@{one}" for index, one in enumerate(counters)]
    assert _Bounds(whole)._runs_all_rounds(block, names) is expected


@pytest.mark.parametrize("seed", range(3))
def test_spans_that_touch_are_one(seed: int) -> None:
    for number in range(60):
        chance = random.Random(60 * seed + number)
        starts = [chance.randint(0, 40) for _ in range(chance.randint(0, 7))]
        spans = [(start, start + chance.randint(1, 9)) for start in starts]
        merged = _merged(spans)
        assert {byte for span in merged for byte in range(*span)} == {byte for span in spans for byte in range(*span)}
        assert all(end < start for (_, end), (start, _) in itertools.pairwise(merged))
