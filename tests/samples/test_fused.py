"""GEMMs with an epilogue of one's own, in every kind of tile: what it asks for, and nothing else, is loaded."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from nvbackend import Major, bf16, f16, u32
from samples.gemm import fused
from samples.gemm.fused import EPILOGUES, Fused
from samples.gemm.unaligned import Unaligned, width_of
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
OF_16_BITS = "MN-major", "in turns"
"""Tiles that operands of 8 bits do not have."""
WHOLE = [
    (name, tile)
    for name, case in EPILOGUES.items()
    for tile in TILES
    if case.form.operand.bits == 16 or tile not in OF_16_BITS
]


OF_ANY_SIZE = {
    "2 bytes": (Unaligned(64, 2, 1, 3, 2), 77),
    "4 bytes": (Unaligned(64, 1, 1, 3, 4, 2), 78),
    "8 bytes of D^T": (Unaligned(16, 1, 2, 3, 8, 2, swapped=True), 76),
    "TMA": (Unaligned(64, 1, 1, 3, 16), 80),
}
"""Tiles that threads copy or store, each with a K."""
ALWAYS = {"residual": "2 bytes", "bias_gelu": "4 bytes", "row_scales": "8 bytes of D^T"}


def problem_of(name, tile, more=(8, 8), depth=144):
    case = EPILOGUES[name]
    tile = replace(tile, operand=case.form.operand, result=case.form.result)
    m, n = tile.sides(tile.rows + more[0], tile.columns + more[1])
    if isinstance(tile, Wide):
        case = case._replace(form=case.form._replace(majors=(tile.a_major, tile.b_major)))
    else:
        tile = replace(tile, width=width_of(depth, tile.operand))
    return fused.problem_for(Fused(tile, case.epilogue), m, n, depth, case)


@pytest.mark.parametrize(("name", "tile"), WHOLE, ids=str)
def test_epilogues_of_every_tile(name, tile):
    problem = problem_of(name, TILES[tile])
    compiled = problem.kernel.compile(assemble=False)
    assert compiled.diagnostics == ()
    assert problem.error(compiled, Device("a test")) < problem.tolerance


@pytest.mark.parametrize(
    ("name", "tile"),
    [
        pytest.param(name, tile, marks=() if ALWAYS.get(name) == tile else pytest.mark.exhaustive(seconds=2))
        for name in EPILOGUES
        for tile in OF_ANY_SIZE
    ],
    ids=str,
)
def test_epilogues_of_any_size(name, tile):
    """Rows of D are no multiples of 16 bytes, nor whole tiles; columns, too."""
    one, depth = OF_ANY_SIZE[tile]
    more = (3, 5) if one.together == 1 else (6, 6)
    problem = problem_of(name, one, more, depth)
    compiled = problem.kernel.compile(assemble=False)
    assert compiled.diagnostics == ()
    assert problem.error(compiled, Device("a test")) < problem.tolerance


@pytest.mark.parametrize("size", [(130, 77, 66), (20, 50, 70), (30, 33, 64), (50, 9, 71)], ids=str)
def test_what_is_chosen_for_any_size_is_built(size):
    one = fused.choose(*size, fused.added)
    assert isinstance(one.tile, Unaligned)
    assert one.kernel.build().diagnostics == ()
    with pytest.raises(ValueError, match="no tile has at most 8 columns"):
        fused.choose(*size, fused.added, most_columns=8)


def test_a_residual_is_loaded_in_pairs_where_rows_have_them():
    for together, load in ((1, "b16"), (2, "b32")):
        one = Fused(Unaligned(64, 1, 1, 3, 16, together), fused.added)
        ptx = one.kernel.compile(assemble=False, check=False).ptx
        assert set(re.findall(r"ld\.global\.nc\.(\S+)", ptx)) == {load}


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


def test_an_epilogue_of_ones_own_in_bf16_is_built():
    def positive(sums, given):
        return (sums + given.residual).map(lambda x: given.k.math.max(x, 0))

    one = fused.choose(300, 272, 144, positive, f16, bf16)
    assert one.kernel.build().diagnostics == ()
    assert one.tile.result is bf16


@pytest.mark.gpu((9, 0))
@pytest.mark.parametrize(
    "size", [(200, 144, 272), (1000, 1040, 2064), (5000, 3008, 80), (1001, 1003, 2005), (513, 1026, 770)], ids=str
)
@pytest.mark.parametrize("name", EPILOGUES)
def test_every_epilogue_on_a_gpu(name, size):
    problem = fused.problem(name, *size)
    assert problem.error(problem.kernel.compile(), Device(None)) < problem.tolerance


@pytest.mark.gpu((9, 0))
@pytest.mark.parametrize("tile", TILES)
def test_every_tile_on_a_gpu(tile):
    problem = problem_of("residual", TILES[tile])
    assert problem.error(problem.kernel.compile(), Device(None)) < problem.tolerance


@pytest.mark.parametrize("size", [(4096, 4096, 4096), (512, 4096, 4096), (4097, 4097, 4097)], ids=str)
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


def dropout(sums, given):
    """Half of the elements, by a hash of their place in D; the others are doubled."""
    (row, column), (_, n) = given.at, given.extents

    def is_kept(i, j):
        i, j = (j, i) if given.swapped else (i, j)
        return hashed(((row + i) * n + (column + j)).to(u32)) >= 2**31

    return sums.where(is_kept, 0.0) * 2.0


def hashed(x):
    x = x * 2654435761
    return (x ^ x >> 15) * 2246822519


@pytest.mark.parametrize("tile", [*TILES, "2 bytes", "8 bytes of D^T"])
def test_a_mask_by_places_in_d(tile):
    case = EPILOGUES["residual"]._replace(epilogue=dropout, expected=lambda product, *_: product)
    one, depth = (TILES[tile], 144) if tile in TILES else OF_ANY_SIZE[tile]
    m, n = one.sides(one.rows + 8, one.columns + 8)
    majors = (one.a_major, one.b_major) if isinstance(one, Wide) else case.form.majors
    form = case.form._replace(majors=majors)
    problem = fused.problem_for(Fused(one, dropout), m, n, depth, case._replace(form=form))
    kept = hashed(np.arange(m * n, dtype=np.uint32).reshape(m, n)) >= 2**31
    problem = replace(problem, expected=np.where(kept, 2 * problem.expected, 0))
    assert problem.error(problem.kernel.compile(assemble=False), Device("a test")) < problem.tolerance


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"a": (56, 48)}, r"A is \(80, 48\), as D is \(80, 96\) and K = 48, not \(56, 48\)"),
        ({"b": (96, 48)}, r"B is \(48, 96\), as D is .* not \(96, 48\)"),
        ({"rows": (96,)}, r"numbers of rows are of shape \(80,\), or one element, not \(96,\)"),
        ({"columns": (95,)}, "numbers of columns are of shape"),
        ({"matrix": (96, 80)}, "elements of the matrix are of shape"),
        ({"d": (80 * 96,)}, "D is M x N, not"),
    ],
    ids=str,
)
def test_arrays_of_other_shapes_are_refused(wrong, text):
    right = {"a": (80, 48), "b": (48, 96), "d": (80, 96), "rows": (80,), "columns": (1,), "matrix": (80, 96)}
    fused.check_shapes(tile := Wide(64, 1, 1, 3, b_major=Major.MN), *arrays_of(right), 48)
    with pytest.raises(ValueError, match=text):
        fused.check_shapes(tile, *arrays_of(right | wrong), 48)


def arrays_of(shapes):
    a, b, d, *given = (np.zeros(shape) for shape in shapes.values())
    return (a, b, d), tuple(given)


@pytest.mark.parametrize("size", [(16, 13, 16), (16, 16, 13)], ids=str)
def test_rows_that_neither_tma_nor_threads_load_are_refused(size):
    with pytest.raises(ValueError, match=r"with MN-major operands, are multiples of 16 bytes, unlike in M = 16, N = 1"):
        fused.choose(*size, fused.added, majors=(Major.K, Major.MN))


def test_an_epilogue_is_no_name():
    name = "residual"
    with pytest.raises(ValueError, match="a function of the sums and of what is given, not 'residual'"):
        fused.choose(16, 16, 16, name)


@pytest.mark.parametrize("tile", [TILES["narrow"], OF_ANY_SIZE["2 bytes"][0]], ids=str)
@pytest.mark.parametrize("given", [None, 3.0, []], ids=str)
def test_an_epilogue_gives_values(tile, given):
    with pytest.raises(ValueError, match=f"an epilogue gives the values to store, not {re.escape(repr(given))}"):
        Fused(tile, lambda *_: given).kernel.build()


def test_places_in_a_large_residual_have_64_bits():
    """M x N may be more than 2^31 elements."""
    one = fused.choose(2**16, 2**16, 64, lambda sums, given: sums + given.residual)
    assert "mad.lo.s64" in one.kernel.compile(assemble=False, check=False).ptx
