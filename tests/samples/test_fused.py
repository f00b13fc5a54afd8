"""GEMMs with an epilogue of one's own, in every kind of tile: what it asks for, and nothing else, is loaded."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nvbackend import Major, bf16, f16
from samples.gemm import fused
from samples.gemm.fused import EPILOGUES, Fused
from samples.gemm.wide import Wide
from samples.program import Device

TILES = {
    "cluster": Wide(128, 1, 2, 3),
    "parts": Wide(128, 2, 1, 3, 2),
    "narrow": Wide(16, 1, 1, 4, swapped=True),
    "C^T": Wide(80, 1, 1, 3, swapped=True),
    "in turns": Wide(128, 2, 1, 3, 2, pingpong=True),
    "MN-major": Wide(64, 1, 1, 3, a_major=Major.MN, b_major=Major.MN),
}


def problem_of(name, tile, more=(8, 8), depth=144):
    case = EPILOGUES[name]
    tile = replace(tile, operand=case.form.operand, result=case.form.result)
    m, n = tile.sides(tile.rows + more[0], tile.columns + more[1])
    case = case._replace(form=case.form._replace(majors=(tile.a_major, tile.b_major)))
    return fused.problem_for(Fused(tile, case.epilogue), m, n, depth, case)


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("name", EPILOGUES)
def test_epilogues_of_every_tile(name, tile):
    if name == "row_scales" and tile in ("MN-major", "in turns"):
        pytest.skip("operands of 8 bits are K-major, and are not multiplied in turns")
    problem = problem_of(name, TILES[tile])
    compiled = problem.kernel.compile(assemble=False)
    assert compiled.diagnostics == ()
    assert problem.error(compiled, Device("a test")) < problem.tolerance


@pytest.mark.parametrize("name", EPILOGUES)
def test_a_matrix_smaller_than_a_tile(name):
    """Rows and columns outside of it have no numbers, and no elements of the residual."""
    problem = problem_of(name, Wide(128, 1, 1, 3), (-56, -80))
    assert problem.error(problem.kernel.compile(assemble=False), Device("a test")) < problem.tolerance


@pytest.mark.parametrize(("name", "used"), [("bias_gelu", {1}), ("residual", {2}), ("row_scales", {0, 1})])
def test_what_is_not_asked_for_is_not_loaded(name, used):
    problem = problem_of(name, Wide(64, 1, 1, 3))
    kernel = problem.kernel
    loads = kernel.compile(assemble=False, check=False).ptx.count("ld.global")
    a, b, *given = problem.inputs
    ones = [one if number in used else one.reshape(-1)[:1] for number, one in enumerate(given)]
    problem = replace(problem, inputs=(a, b, *ones))
    assert problem.error(kernel.compile(assemble=False), Device("a test")) < problem.tolerance
    plain = problem_of(name, Wide(64, 1, 1, 3))
    sums = replace(plain, kernel=plain.kernel.with_(epilogue=lambda sums, given: sums * given.alpha))
    assert sums.kernel.compile(assemble=False, check=False).ptx.count("ld.global") == 0 < loads


def test_an_epilogue_of_ones_own_in_bf16():
    case = EPILOGUES["residual"]
    form = case.form._replace(operand=f16, result=bf16)
    one = fused.choose(
        300, 272, 144, lambda sums, given: (sums + given.residual).map(lambda x: given.k.math.max(x, 0)), f16, bf16
    )
    assert one.kernel.build().diagnostics == ()
    assert one.tile.result is bf16 is form.result


@pytest.mark.gpu((9, 0))
@pytest.mark.parametrize("size", [(200, 144, 272), (1000, 1040, 2064), (5000, 3008, 80)], ids=str)
@pytest.mark.parametrize("name", EPILOGUES)
def test_every_epilogue_on_a_gpu(name, size):
    problem = fused.problem(name, *size)
    assert problem.error(problem.kernel.compile(), Device(None)) < problem.tolerance


@pytest.mark.gpu((9, 0))
@pytest.mark.parametrize("tile", TILES)
def test_every_tile_on_a_gpu(tile):
    problem = problem_of("residual", TILES[tile])
    assert problem.error(problem.kernel.compile(), Device(None)) < problem.tolerance


@pytest.mark.parametrize("size", [(4096, 4096, 4096), (512, 4096, 4096)], ids=str)
@pytest.mark.parametrize("name", EPILOGUES)
def test_what_is_chosen_spills_nothing(name, size):
    case = EPILOGUES[name]
    one = fused.choose(*size, case.epilogue, case.form.operand, case.form.result)
    assert one.kernel.compile(check=False).diagnostics == ()


def test_tiles_of_fewer_columns():
    assert fused.choose(4096, 4096, 4096, fused.added, most_columns=128).tile.columns <= 128
    with pytest.raises(ValueError, match="no tile has at most 8 columns"):
        fused.choose(4096, 4096, 4096, fused.added, most_columns=8)


def test_the_choice_is_a_tile_of_one_cta():
    assert isinstance(fused.choose(16, 4096, 4096, fused.scaled).tile, Wide)
    assert np.isfinite(fused.problem("bias_gelu", 40, 48, 64).expected).all()
