"""Fragments of mma.sync against the formulas of PTX ISA 9.7.14.5 and 9.7.14.6, written down here a second time."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from nvbackend.diagnostics import DiagnosticError
from nvbackend.intrinsics.fragments import mma as fragments
from nvbackend.intrinsics.row.types import f16, f32
from tests.support.mma_formulas import FOUR_MATRICES, LANES, METADATA, A, B, d_formula, matrix_of


@pytest.mark.parametrize(("shape", "bits"), A)
def test_a(shape: tuple[int, int, int], bits: int) -> None:
    count, formula = A[shape, bits]
    held = {(lane, i): fragments.a_position(shape, bits, lane, i) for lane in LANES for i in range(count)}
    assert held == {(lane, i): formula(lane >> 2, lane % 4, i) for lane, i in held}
    assert set(held.values()) == set(itertools.product(range(shape[0]), range(shape[2])))
    assert fragments.a_registers(shape, bits) * max(1, 32 // bits) == count


@pytest.mark.parametrize(("shape", "bits"), B)
def test_b(shape: tuple[int, int, int], bits: int) -> None:
    count, formula = B[shape, bits]
    held = {(lane, i): fragments.b_position(shape, bits, lane, i) for lane in LANES for i in range(count)}
    assert held == {(lane, i): formula(lane >> 2, lane % 4, i) for lane, i in held}
    assert set(held.values()) == set(itertools.product(range(shape[2]), range(8)))
    assert fragments.b_registers(shape, bits) * max(1, 32 // bits) == count


@pytest.mark.parametrize("shape", [(8, 8, 16), (16, 8, 16)])
def test_d(shape: tuple[int, int, int]) -> None:
    held = {(lane, i): fragments.d_position(shape, lane, i) for lane in LANES for i in range(shape[0] // 4)}
    assert held == {(lane, i): d_formula(lane >> 2, lane % 4, i) for lane, i in held}
    assert set(held.values()) == set(itertools.product(range(shape[0]), range(8)))


LIBRARY = {
    "A row": lambda lane, i: fragments.four_matrices_a_position("row", lane, i),
    "A col": lambda lane, i: fragments.four_matrices_a_position("col", lane, i),
    "B row": lambda lane, i: fragments.four_matrices_b_position("row", lane, i),
    "B col": lambda lane, i: fragments.four_matrices_b_position("col", lane, i),
    "D f16": lambda lane, i: fragments.four_matrices_d_position(f16, lane, i),
    "D f32": lambda lane, i: fragments.four_matrices_d_position(f32, lane, i),
}


@pytest.mark.parametrize("name", FOUR_MATRICES)
def test_m8n8k4_of_f16(name: str) -> None:
    count, formula = FOUR_MATRICES[name]
    assert [fragments.matrix_of(lane) for lane in LANES] == [matrix_of(lane) for lane in LANES]
    for lane, i in itertools.product(LANES, range(count)):
        assert LIBRARY[name](lane, i) == formula(lane, i)
    of_first = {LIBRARY[name](lane, i) for lane in LANES if fragments.matrix_of(lane) == 0 for i in range(count)}
    assert len(of_first) == 8 * count


@pytest.mark.parametrize(("bits", "k"), METADATA)
def test_metadata(bits: int, k: int) -> None:
    threads, formula = METADATA[bits, k]
    shape = (16, 8, k)
    assert fragments.selectors(shape, bits) == tuple(range(4 // threads))
    for selector in range(4 // threads):
        counting = [lane for lane in LANES if fragments.metadata_counts(shape, bits, lane, selector)]
        assert counting == [lane for lane in LANES if selector * threads <= lane % 4 < (selector + 1) * threads]
        spoken = [fragments.metadata_chunk(shape, bits, lane, chunk) for lane in counting for chunk in range(8)]
        assert spoken == [formula(lane // 4, lane % 4 % threads, chunk) for lane in counting for chunk in range(8)]
        width = {32: 2, 16: 4, 8: 4, 4: 8}[bits]
        assert sorted(spoken) == [(row, column) for row in range(16) for column in range(0, k, width)]


@pytest.mark.parametrize("thread_id", [0, 1])
def test_scale_factors_of_a(thread_id: int) -> None:
    rows = {lane: fragments.scale_a_row(lane, thread_id) for lane in LANES}
    giving = {lane: row for lane, row in rows.items() if row is not None}
    assert list(giving) == [lane for lane in LANES if lane % 4 in (2 * thread_id, 2 * thread_id + 1)]
    assert giving == {lane: lane // 4 + 8 * (lane % 2) for lane in giving}
    assert sorted(giving.values()) == list(range(16))


@pytest.mark.parametrize("thread_id", [0, 1, 2, 3])
def test_scale_factors_of_b(thread_id: int) -> None:
    columns = {lane: fragments.scale_b_column(lane, thread_id) for lane in LANES}
    assert {lane: column for lane, column in columns.items() if column is not None} == {
        4 * column + thread_id: column for column in range(8)
    }


def test_bytes_of_scale_factors() -> None:
    assert {vector: fragments.scale_bytes(vector) for vector in (1, 2, 4)} == {1: (0, 1, 2, 3), 2: (0, 2), 4: (0,)}


@pytest.mark.parametrize(
    "ask",
    [
        lambda: fragments.a_position((16, 8, 16), 16, 32, 0),
        lambda: fragments.a_position((16, 8, 16), 16, 0, 8),
        lambda: fragments.b_position((16, 8, 16), 16, 0, 4),
        lambda: fragments.d_position((16, 8, 16), 0, 4),
        lambda: fragments.metadata_chunk((16, 8, 16), 16, 0, 8),
        lambda: fragments.metadata_counts((16, 8, 64), 8, 0, 1),
        lambda: fragments.four_matrices_a_position("row", 0, 4),
        lambda: fragments.four_matrices_d_position(f32, -1, 0),
        lambda: fragments.matrix_of(32),
        lambda: fragments.scale_a_row(0, 2),
        lambda: fragments.scale_b_column(0, 4),
    ],
)
def test_what_is_outside_of_the_tile_is_refused(ask: Callable[[], object]) -> None:
    with pytest.raises(DiagnosticError, match=r"fragment\.range"):
        ask()
