"""e4m3 with scales of blocks: every kernel that can be chosen multiplies, and the choice weighs waves."""

from __future__ import annotations

import pytest

from samples.block_scaled_gemm import STEP, choose, problem_for
from samples.program import Device


@pytest.mark.parametrize("consumers", STEP)
def test_every_choice_multiplies_in_the_simulator(consumers):
    """Two tiles and a bit along M, a part of a tile along N, and more steps than stages."""
    problem = problem_for(consumers, 64 * consumers + 10, 72, 656)
    compiled = problem.kernel.compile(assemble=False)
    assert compiled.diagnostics == ()
    assert problem.error(compiled, Device("a test")) < problem.tolerance


@pytest.mark.parametrize(
    ("size", "consumers"), [((8192, 8192), 3), ((1024, 1024), 2), ((1536, 1408), 2), ((1536, 1536), 3)], ids=str
)
def test_three_consumers_are_chosen_unless_two_need_less_time(size, consumers):
    assert choose(*size) == consumers
