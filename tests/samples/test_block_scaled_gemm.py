"""e4m3 with scales of blocks: every kernel that can be chosen multiplies, and the choice weighs waves and bytes."""

from __future__ import annotations

import pytest

from samples.block_scaled_few_rows import SPLITS, WIDTHS, FewRows, forms
from samples.block_scaled_gemm import STEP, Large, choose, problem_for
from samples.program import Device

FEW = [one for columns in WIDTHS for one in forms(columns)]
USUAL = [
    pytest.param(one, marks=() if one.split == SPLITS[0] and one.columns < 128 else pytest.mark.exhaustive(seconds=9))
    for one in FEW
]


@pytest.mark.parametrize("consumers", STEP)
def test_every_large_tile_multiplies_in_the_simulator(consumers):
    """Two tiles and a bit along M, a part of a tile along N, and more steps than stages."""
    problem = problem_for(Large(consumers), 64 * consumers + 10, 72, 656)
    compiled = problem.kernel.compile(assemble=False)
    assert compiled.diagnostics == ()
    assert problem.error(compiled, Device("a test")) < problem.tolerance


@pytest.mark.parametrize("one", USUAL)
def test_every_tile_for_few_rows_multiplies_in_the_simulator(one):
    """A tile and a part along N, rows of A that no thread's pair divides, and steps that the CTAs share unequally."""
    problem = problem_for(one, one.columns - 5, 200, 656)
    compiled = problem.kernel.compile(assemble=False)
    assert compiled.diagnostics == ()
    assert problem.error(compiled, Device("a test")) < problem.tolerance


def test_rows_of_a_may_be_in_several_tiles():
    problem = problem_for(FewRows(16, 2, 3), 37, 136, 400)
    assert problem.error(problem.kernel.compile(assemble=False), Device("a test")) < problem.tolerance


@pytest.mark.gpu((9, 0))
@pytest.mark.parametrize("one", FEW, ids=repr)
def test_every_tile_for_few_rows_multiplies_on_a_gpu(one):
    problem = problem_for(one, one.columns - 5, 1000, 2064)
    assert problem.error(problem.kernel.compile(), Device(None)) < problem.tolerance


@pytest.mark.parametrize(
    ("size", "consumers"), [((8192, 8192), 3), ((1024, 1024), 2), ((1536, 1408), 2), ((1536, 1536), 3)], ids=str
)
def test_three_consumers_are_chosen_unless_two_need_less_time(size, consumers):
    assert choose(*size, 4096) == Large(consumers)


@pytest.mark.parametrize("m", [1, 8, 16, 17, 32])
def test_few_rows_have_tiles_of_their_own(m):
    one = choose(m, 4096, 7168)
    assert isinstance(one, FewRows)
    assert one.columns == (16 if m <= 16 else 32)


def test_the_choice_is_what_was_fastest_on_an_h200():
    assert choose(16, 24576, 1536) == FewRows(16, 2, 11)
    assert choose(64, 2112, 7168) == FewRows(64, 4, 7)
    assert choose(128, 4096, 4096) == FewRows(128, 2, 5)
    assert choose(128, 24576, 1536) == Large(2)


def test_more_ctas_share_the_depth_where_tiles_are_few():
    few, many = choose(64, 2112, 7168), choose(64, 8192, 8192)
    assert isinstance(few, FewRows)
    assert isinstance(many, FewRows)
    assert few.split > many.split
