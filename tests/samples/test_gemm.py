"""GEMMs of any shape: every kernel that can be chosen multiplies, and the choice is what a measured table says."""

from __future__ import annotations

import pytest

from samples.gemm import choice
from samples.gemm.__main__ import FORMS, problem_for
from samples.gemm.thin import Thin
from samples.gemm.wide import Wide
from samples.program import Device
from tests.support.process import ROOT, run_here

WIDE = list(choice.wide_ones())
THIN = [one for m in (8, 16, 32, 64, 128) for one in choice.thin_ones(m)]
USUAL = [Wide(128, 1, 1, 7), Thin(16, 1, 2, 8), Thin(64, 2, 4, 7, 1)]
"""Some of both, for the ordinary run."""
EVERY = [
    pytest.param(one, marks=() if one in USUAL else pytest.mark.exhaustive(seconds=6), id=repr(one))
    for one in (*WIDE, *THIN)
]


LITTLE, LARGE = (64, 64, 128), (8192, 8192, 8192)
"""Shapes with the least tile and the largest."""
OTHERS = [
    pytest.param(name, size, marks=() if size == LITTLE or name == "tf32" else pytest.mark.exhaustive(seconds=6))
    for name in FORMS
    if name != "f16"
    for size in (LITTLE, LARGE)
]


def error(one, device, depth=520, *, check=True):
    """The largest error at a small shape that nothing divides: two tiles and a bit along M and N."""
    m = one.rows + 8 if isinstance(one, Wide) else one.columns - 3
    n = one.columns + 8 if isinstance(one, Wide) else one.rows + 8
    problem = problem_for(one, m, n, depth)
    compiled = problem.kernel.compile(assemble=device is None, check=check)
    assert compiled.diagnostics == ()
    return problem.error(compiled, Device(device)), problem.tolerance


@pytest.mark.parametrize("one", [*WIDE, *THIN], ids=repr)
def test_every_choice_is_verified_and_multiplies_few_steps(one):
    found, tolerance = error(one, "the test asks for it", 136, check=False)
    assert found < tolerance


@pytest.mark.parametrize(("depth", "instructions"), [(16, 4 + 1), (56, 4), (64, 4), (72, 4 + 1), (176, 4 + 3)])
def test_a_last_step_that_is_not_full_has_fewer_instructions(depth, instructions):
    one = Wide(64, 1, 1, 2).for_depth(depth)
    compiled = one.kernel.compile(assemble=False, check=False)
    assert compiled.ptx.count("wgmma.mma_async") == instructions
    problem = problem_for(one, 72, 72, depth)
    assert problem.error(compiled, Device("a test")) < problem.tolerance


@pytest.mark.parametrize("one", EVERY)
def test_every_choice_multiplies_in_the_simulator(one):
    found, tolerance = error(one, "the test asks for it")
    assert found < tolerance


@pytest.mark.parametrize(("name", "size"), OTHERS)
def test_other_types_and_batches_multiply_in_the_simulator(name, size):
    form = FORMS[name]
    one = choice.choose(*size, form.operand, form.result, batches=form.batches)
    assert isinstance(one, Wide)
    m, n = (one.rows + 8, one.columns + 16) if size == LITTLE else (one.rows, one.columns)
    problem = problem_for(one, m, n, 2 * one.depth + 16, form)
    compiled = problem.kernel.compile(assemble=False)
    assert compiled.diagnostics == ()
    assert problem.error(compiled, Device("a test")) < problem.tolerance


@pytest.mark.gpu((9, 0))
@pytest.mark.parametrize("size", [(200, 144, 272), (1000, 1040, 2064)], ids=str)
@pytest.mark.parametrize("name", FORMS)
def test_every_form_multiplies_on_a_gpu(name, size):
    form = FORMS[name]
    one = choice.choose(*size, form.operand, form.result, batches=form.batches)
    problem = problem_for(one, *size, form)
    assert problem.error(problem.kernel.compile(), Device(None)) < problem.tolerance


@pytest.mark.gpu((9, 0))
@pytest.mark.parametrize("one", [*WIDE, *THIN], ids=repr)
def test_every_choice_multiplies_on_a_gpu(one):
    found, tolerance = error(one, None)
    assert found < tolerance


def test_the_usual_ones_can_be_chosen():
    assert all(one in (*WIDE, *THIN) for one in USUAL)


@pytest.mark.parametrize(
    ("shape", "fastest"),
    [
        ((1024, 1024, 1024), Wide(128, 1, 1, 7)),
        ((4096, 4096, 4096), Wide(256, 2, 2, 3)),
        ((5000, 3000, 2000), Wide(192, 2, 2, 4, tail=1)),
        ((8192, 8192, 1024), Wide(192, 2, 2, 4)),
        ((128, 8192, 8192), Wide(128, 1, 2, 7)),
        ((16, 8192, 8192), Thin(16, 1, 1, 8)),
    ],
    ids=str,
)
def test_the_model_finds_what_was_fastest_on_an_h200(shape, fastest):
    assert choice.choose(*shape) == fastest


def test_few_tiles_share_the_depth():
    few, many = choice.choose(8, 1024, 16384), choice.choose(8, 16384, 1024)
    assert isinstance(few, Thin)
    assert isinstance(many, Thin)
    assert few.split > many.split


def test_the_program_names_its_choice():
    done = run_here(ROOT / "samples" / "gemm" / "__main__.py", "f16", "16", "144", "256", "--simulate")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Thin(columns=16")
    assert ": equal to NumPy, largest error" in done.stdout.splitlines()[-1]
