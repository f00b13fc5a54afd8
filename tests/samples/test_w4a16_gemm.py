"""Weights of 4 bits: every kernel that can be chosen multiplies, and a choice fits the chip."""

from __future__ import annotations

import itertools

import pytest

from samples.program import Device
from samples.w4a16_gemm import COLUMNS, GROUP, ROWS, SPLITS, choice_of, problem_for

pytestmark = pytest.mark.sampled(4)

EVERY = [choice_of(columns, split) for columns, split in itertools.product(COLUMNS, SPLITS)]


@pytest.mark.parametrize("one", EVERY, ids=str)
def test_every_choice_multiplies_in_the_simulator(one):
    """A row of X less than a tile has, and steps that the CTAs of a cluster cannot share equally."""
    problem = problem_for(one, one.columns - 1, ROWS, 3 * GROUP)
    compiled = problem.kernel.compile(assemble=False, check=False)
    assert compiled.diagnostics == ()
    assert problem.error(compiled, Device("a test")) < problem.tolerance
