"""Rows and columns that threads have of a tile, against the sets of elements that the PTX ISA's formulas give them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import combinations

import pytest

from nvbackend.layout import Layout
from nvbackend.tiled import make_tiled_mma
from nvbackend.tiled.operand import MmaOperand
from nvbackend.tiled.ownership import Ownership, ownership_of_atom, ownership_of_mma

Place = tuple[int, int]
Elements = list[list[Place]]
"""Rows and columns of the elements of each thread, in the order of its registers."""


def _m16n8(rows: int, columns: int, warps: Place) -> Callable[[int], list[Place]]:
    """PTX ISA, m16n8 accumulators: a warp has rows lane / 4 and 8 more, columns lane % 4 * 2 and 1 more."""
    down, across = warps

    def of(thread: int) -> list[Place]:
        warp, lane = divmod(thread, 32)
        row, column = warp % down * 16 + lane // 4, warp // down * 8 + lane % 4 * 2
        return [
            (row + m + i // 2 * 8, column + n + i % 2)
            for n in range(0, columns, 8 * across)
            for m in range(0, rows, 16 * down)
            for i in range(4)
        ]

    return of


def _quads(thread: int) -> list[Place]:
    """PTX ISA, m8n8k4 with f32: four threads of each half of a warp are a pair of quads; here two pairs by two."""
    x, half, pair = thread % 4, thread // 16, thread // 4 % 4
    row, column = (x & 1) + half * 4 + pair % 2 * 8, (x & 2) + pair // 2 * 8
    return [(row + (i & 2), column + (i & 4) + (i & 1)) for i in range(8)]


def _wgmma(thread: int) -> list[Place]:
    return [
        (thread // 32 * 16 + thread % 32 // 4 + i // 2 % 2 * 8, i // 4 * 8 + thread % 4 * 2 + i % 2) for i in range(16)
    ]


def ownership_of_lanes(rows: int, columns: int) -> Ownership:
    """A row for each thread."""
    values = tuple((0, column) for column in range(columns))
    return Ownership((rows, columns), (Layout(rows, 1), Layout(rows, 0)), values, tuple(range(rows)))


QUADS = "SM70_8x8x4_F32F16F16F32_TN"
SM80 = "SM80_16x8x16_F32F16F16F32_TN"
CASES: dict[str, tuple[Callable[[], Ownership], Callable[[int], list[Place]], int]] = {
    f"{down}x{across} warps": (
        lambda atoms=(down, across, 1): ownership_of_mma(
            make_tiled_mma(SM80, atoms), MmaOperand.C, (32 * atoms[0], 32)
        ),
        _m16n8(32 * down, 32, (down, across)),
        32 * down * across,
    )
    for down, across in ((1, 1), (2, 1), (1, 2), (2, 2), (1, 4))
} | {
    "quads": (lambda: ownership_of_mma(make_tiled_mma(QUADS, (2, 2, 1)), MmaOperand.C, (16, 16)), _quads, 32),
    "wgmma": (lambda: ownership_of_atom(32), _wgmma, 128),
    "a row a thread": (lambda: ownership_of_lanes(64, 4), lambda thread: [(thread, column) for column in range(4)], 64),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[Ownership, Elements]:
    owned, formula, threads = CASES[request.param]
    return owned(), [formula(thread) for thread in range(threads)]


def by_firsts(shape: Place, firsts: list[Place], values: tuple[Place, ...]) -> Ownership:
    """Threads whose first elements are anywhere."""
    coordinates = tuple(row * 100 + column for row, column in firsts)
    return Ownership(shape, (Layout((100, 100), (0, 1)), Layout((100, 100), (1, 0))), values, coordinates)


def bits_of(elements: Elements, axis: int) -> list[int]:
    rows = [{place[axis] for place in each} for each in elements]
    here = range(len(elements))
    return [bit for bit in (1, 2, 4, 8, 16) if all(t ^ bit in here and rows[t ^ bit] == rows[t] for t in here)]


def group_of(thread: int, bits: list[int]) -> list[int]:
    return [thread ^ sum(some) for count in range(len(bits) + 1) for some in combinations(bits, count)]


def test_elements_are_those_of_the_formulas(case: tuple[Ownership, Elements]) -> None:
    owned, elements = case
    assert [sorted((r + m, c + n) for m, n in owned.values) for r, c in owned.firsts] == [*map(sorted, elements)]
    assert list(owned.firsts) == [each[0] for each in elements]
    for axis in (0, 1):
        start = elements[0][0][axis]
        assert owned.along(axis) == tuple(sorted({place[axis] - start for place in elements[0]}))


@pytest.mark.parametrize("axis", [0, 1])
def test_lanes_that_share_rows(case: tuple[Ownership, Elements], axis: int) -> None:
    owned, elements = case
    bits = bits_of(elements, axis)
    assert list(owned.lanes(axis)) == bits
    whole = {(row, column): 1 for row in range(owned.shape[0]) for column in range(owned.shape[1])}

    def has_all(threads: list[int], line: int) -> bool:
        """Whether these threads have each element of a row or column once."""
        held = Counter(place for thread in threads for place in elements[thread] if place[axis] == line)
        return held == {place: 1 for place in whole if place[axis] == line}

    alone = all(
        has_all(group_of(warp, bits), place[axis]) for warp in range(0, len(elements), 32) for place in elements[warp]
    )
    assert owned.in_lanes(axis) == alone
    leaders = [thread for thread in range(len(elements)) if not thread & sum(bits)]
    lines: dict[int, list[int]] = {line: [] for line in range(owned.shape[axis])}
    for thread in leaders:
        for line in {place[axis] for place in elements[thread]}:
            lines[line].append(thread)
    starts = [sorted(elements[thread][0][1 - axis] for thread in threads) for threads in lines.values()]
    is_dealt = all(each == starts[0] for each in starts) and all(
        has_all([other for thread in threads for other in group_of(thread, bits)], line)
        for line, threads in lines.items()
    )
    assert owned.spread(axis) == (tuple(starts[0]) if is_dealt else None)


def test_what_is_not_dealt_out_has_no_parts() -> None:
    """Two warps with the same tile, rows that nobody has, and rows in different parts."""
    pair = Layout((32, 2), (1, 0)), Layout(64, 0)
    values = tuple((0, column) for column in range(4))
    for owned in (
        Ownership((32, 4), pair, values, tuple(range(64))),
        Ownership((65, 4), (Layout(64, 1), Layout(64, 0)), values, tuple(range(64))),
        Ownership((64, 5), (Layout(64, 1), Layout(64, 0)), values, tuple(range(64))),
        Ownership((32, 8), (Layout((32, 2), (1, 0)), Layout((32, 2), (0, 1))), values, tuple(range(64))),
    ):
        assert owned.spread(0) is None
    assert by_firsts((2, 4), [(0, 0)] * 16 + [(1, 1)] * 16, values).spread(0) is None, "the second row is not whole"
    assert Ownership((32, 4), pair, values, tuple(range(64))).in_lanes(0)
    # the second warp has other columns than the first, which has all
    halves = by_firsts((32, 4), [(row, 0) for row in range(32)] + [(row, 2) for row in range(32)], values)
    assert not halves.in_lanes(0)
    # two lanes share a row, the others do not
    assert by_firsts((32, 4), [(0, 0), (0, 0), *((row, 0) for row in range(2, 32))], values).lanes(0) == ()
    assert not Ownership((64, 5), (Layout(64, 1), Layout(64, 0)), values, tuple(range(64))).in_lanes(0)


def test_ownerships_that_go_together() -> None:
    """Rows and columns are compared apart, and tiles across them may have any extent."""
    small, wide = ownership_of_atom(16), ownership_of_atom(32)
    lanes, other = ownership_of_lanes(64, 16), ownership_of_lanes(32, 16)
    assert [small.goes_with(wide, axis) for axis in (0, 1)] == [True, False]
    assert [small.goes_with(lanes, axis) for axis in (0, 1)] == [False, False]
    assert [lanes.goes_with(other, axis) for axis in (0, 1)] == [False, False]
    assert [lanes.goes_with(ownership_of_lanes(64, 8), axis) for axis in (0, 1)] == [True, False]
    assert small.goes_with(ownership_of_atom(16), 1)


def test_the_order_of_the_same_elements() -> None:
    lanes = ownership_of_lanes(32, 4)
    back = Ownership(lanes.shape, lanes.threads, lanes.values[::-1], lanes.coordinates)
    turned = Ownership(lanes.shape, lanes.threads, (*lanes.values[1:], lanes.values[0]), lanes.coordinates)
    assert lanes.order_of(back) == (3, 2, 1, 0)
    assert lanes.order_of(turned) == (1, 2, 3, 0)
    assert turned.order_of(lanes) == (3, 0, 1, 2)
    fewer = Ownership(lanes.shape, lanes.threads, lanes.values[:2], lanes.coordinates)
    assert fewer.order_of(lanes) is None
    assert lanes.order_of(ownership_of_lanes(32, 5)) is None
    assert ownership_of_lanes(32, 5).order_of(lanes) is None
    moved = Ownership(lanes.shape, (Layout(32, 1), Layout(32, 1)), lanes.values, lanes.coordinates)
    assert lanes.order_of(moved) is None
    assert ownership_of_lanes(64, 4).order_of(lanes) is None
