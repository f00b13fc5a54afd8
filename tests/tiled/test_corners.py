"""What random tiles seldom meet: gaps between threads, swizzles behind an offset, strides of run time, wrong orders."""

from __future__ import annotations

from typing import Any

import pytest

from nvbackend import DiagnosticError, Major, SwizzleMode, f16
from nvbackend.layout import Dynamic, Layout, gmma_atom, tile_to_shape
from nvbackend.tiled import make_tiled_mma

WARP = "SM80_16x8x16_F32F16F16F32_TN"


def test_three_pairs_of_quads() -> None:
    """Thread 16 is the fifth of the first pair, though 16 / 4 % 3 is 1; threads 12 to 15 have no part."""
    mma = make_tiled_mma("SM70_8x8x4_F32F16F16F32_NT", (3, 1, 1))
    assert mma.get_slice(16).vmnk == (4, 0, 0, 0)
    assert mma.get_slice(27).vmnk == (7, 2, 0, 0)
    with pytest.raises(DiagnosticError, match=r"tiled-mma\.thread"):
        mma.get_slice(13)


@pytest.mark.parametrize("thread", [0, 5, 70, 127])
def test_a_swizzle_behind_an_offset(thread: int) -> None:
    """Where a thread's elements are in swizzled memory is where the tile has the elements of the plain partition."""
    one = make_tiled_mma("SM90_64x64x16_F32F16F16_RS<Major::K, Major::K>").get_slice(thread)
    tile = tile_to_shape(gmma_atom(Major.K, SwizzleMode.B128, f16), (64, 64))
    part, plain = one.partition_A(tile), one.partition_A(Layout((64, 64)))
    expected = [tile(index % 64, index // 64) for index in plain.offsets()]
    assert part.offsets() == expected
    assert [part(value, 0, k) for k in range(4) for value in range(8)] == expected
    assert part(None, 0, 2).offsets() == expected[16:24]


def test_strides_of_run_time_come_last() -> None:
    one = make_tiled_mma(WARP).get_slice(0)
    fragment = one.partition_fragment_A(Layout((64, 32), (Dynamic(8), 1)))
    assert str(fragment.layout) == "((_2,_2,_2),_4,_2):((_1,_2,_4),_16,_8)"


@pytest.mark.parametrize(
    ("atoms", "permutation", "words"),
    [
        ((1, 1, 1), (Layout((16, 2), (1, 0)),), "does not reach every element below 32 once"),
        ((1, 1, 1), (24,), "24 elements are not a multiple of the 16"),
        ((1, 2, 1), (None, 8), "8 elements are not a multiple of the 16"),
        ((1, 1, 1), (0,), "permutation 0 of M .*an extent is a positive number"),
        ((1, 1, 1), (-32,), "permutation -32 of M .*an extent is a positive number"),
        ((1, 1, 1), ("32",), "neither an extent nor a layout"),
        ((1, 1, 1), (True,), "permutation True of M .*neither an extent nor a layout"),
        ((1, 1, 1), (16, 8, 16, 1), "4 entries"),
        ((3, 1, 1), (Layout((24, 2), (2, 1)),), "no constant steps"),
    ],
)
def test_permutations_that_are_none(atoms: Any, permutation: Any, words: str) -> None:
    with pytest.raises(DiagnosticError, match=rf"tiled-mma\.permutation.*{words}"):
        make_tiled_mma(WARP, atoms, permutation)


def test_the_stored_columns_of_a_sparse_a_stay() -> None:
    with pytest.raises(DiagnosticError, match=r"tiled-mma\.permutation.*follow its metadata"):
        make_tiled_mma("SM80_SPARSE_16x8x32_F32F16F16F32_TN", (1, 1, 1), (None, None, Layout((16, 2), (2, 1))))
    others = Layout((8, 2), (2, 1)), Layout((2, 8), (8, 1)), 64
    assert make_tiled_mma("SM80_SPARSE_16x8x32_F32F16F16F32_TN", (1, 1, 1), others).permutation_mnk == others


@pytest.mark.parametrize("atoms", [Layout((2, 2), (1, 1)), Layout((3, 2), (2, 3)), (1, 1, 1, 2)])
def test_atom_layouts_that_are_none(atoms: Any) -> None:
    with pytest.raises(DiagnosticError, match=r"tiled-mma\.atom-layout"):
        make_tiled_mma(WARP, atoms)


def test_dimensions_that_the_atom_layout_leaves_out() -> None:
    """CUTLASS include/cute/atom/mma_atom.hpp (make_tiled_mma): append<3>(thr_layout, Layout<_1,_0>{})."""
    for given in (2, (2,), Layout(2)):
        assert str(make_tiled_mma(WARP, given).atom_layout_mnk) == "(_2,_1,_1):(_1,_0,_0)"
