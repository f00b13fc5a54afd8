"""Layouts of sparse metadata and of scale factors: CuTe's own, and the figures of the PTX ISA."""

from __future__ import annotations

import itertools

import pytest

from nvbackend.atoms import MmaAtom, atom, known_atoms
from nvbackend.intrinsics.fragments.mma import scale_a_row, scale_b_column
from tests.support import mma_formulas

SPARSE = {(one.threads, one.shape[2], one.bits): one for one in known_atoms() if one.sparsity is not None}
SCALED = {one.shape: one for one in known_atoms() if one.block_scale is not None and one.sparsity is None}


def test_cutes_own() -> None:
    """CUTLASS include/cute/atom/mma_traits_sm120.hpp and mma_traits_sm120_sparse.hpp."""
    assert str(SPARSE[32, 64, 8].layout_e) == "((_2,_2,_8),_32):((_8,_512,_1),_16)"
    assert str(SPARSE[32, 128, 4].layout_e) == "((_2,_2,_8),_64):((_8,_1024,_1),_16)"
    assert str(SCALED[16, 8, 64].layout_sfa) == "((_2,_2,_8),_64):((_8,_0,_1),_16)"
    assert str(SCALED[16, 8, 64].layout_sfb) == "((_4,_8),_64):((_0,_1),_8)"
    assert str(SCALED[16, 8, 32].layout_sfa) == "((_2,_2,_8),_32):((_8,_0,_1),_16)"
    assert str(SCALED[16, 8, 32].layout_sfb) == "((_4,_8),_32):((_0,_1),_8)"


@pytest.mark.parametrize("one", SPARSE.values(), ids=str)
def test_metadata_is_where_the_figures_have_it(one: MmaAtom) -> None:
    """Every thread, also those that do not count: they are told what those of their rank are."""
    m, _, k = one.shape
    threads, formula = mma_formulas.METADATA[one.bits, k]
    width = {32: 2, 4: 8}.get(one.bits, 4)
    layout = one.layout_e
    assert layout is not None
    values = layout[1].offsets()
    assert len(values) == 8 * width
    for thread in range(one.threads):
        warp, lane = divmod(thread, 32)
        found = {(layout(thread, value) % m, layout(thread, value) // m) for value in range(len(values))}
        expected = set()
        for chunk in range(8):
            row, first = formula(lane // 4, lane % 4 % threads, chunk)
            expected |= {(row + 16 * warp, first + column) for column in range(width)}
        assert found == expected


@pytest.mark.parametrize("one", SCALED.values(), ids=str)
def test_scale_factors_are_of_the_threads_that_count(one: MmaAtom) -> None:
    m, n, k = one.shape
    sfa, sfb = one.layout_sfa, one.layout_sfb
    assert sfa is not None
    assert sfb is not None
    for lane, value in itertools.product(range(32), range(k)):
        rows = {row for pair in (0, 1) if (row := scale_a_row(lane, pair)) is not None}
        assert ({sfa(lane, value) % m}, sfa(lane, value) // m) == (rows, value)
        columns = {column for place in range(4) if (column := scale_b_column(lane, place)) is not None}
        assert ({sfb(lane, value) % n}, sfb(lane, value) // n) == (columns, value)


def test_atoms_without_them() -> None:
    dense = atom("SM80_16x8x16_F32F16F16F32_TN")
    assert (dense.layout_e, dense.layout_sfa, dense.layout_sfb) == (None, None, None)
