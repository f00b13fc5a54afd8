"""Weights of 4 bits: every kernel that can be chosen multiplies, and a choice fits the chip."""

from __future__ import annotations

import itertools

import pytest

from samples.program import Device
from samples.w4a16_gemm import COLUMNS, GROUP, ROWS, SPLITS, choice_of, choose, problem_for

pytestmark = pytest.mark.sampled(4)

EVERY = [choice_of(columns, split) for columns, split in itertools.product(COLUMNS, SPLITS)]


@pytest.mark.parametrize("one", EVERY, ids=str)
def test_every_choice_multiplies_in_the_simulator(one):
    """A row of X less than a tile has, and steps that the CTAs of a cluster cannot share equally."""
    problem = problem_for(one, one.columns - 1, ROWS, 3 * GROUP)
    compiled = problem.kernel.compile(assemble=False, check=False)
    assert compiled.diagnostics == ()
    assert problem.error(compiled, Device("a test")) < problem.tolerance


@pytest.mark.gpu((9, 0))
@pytest.mark.parametrize("m", [1, 100])
def test_tiles_that_no_cluster_shares_multiply_on_a_gpu(m):
    """So many rows of W that each CTA sums along all of K: it sends its parts to itself."""
    many = 14336
    one = choose(m, many)
    assert one.split == 1
    problem = problem_for(one, m, many, 3 * GROUP)
    assert problem.error(problem.kernel.compile(), Device(None)) < problem.tolerance


def test_a_kernel_that_no_cluster_shares_is_launched_in_clusters_of_one():
    """Its stores to shared memory of the cluster stop a kernel without a cluster."""
    ptx = choice_of(COLUMNS[0], 1).kernel.compile(assemble=False, check=False).ptx
    assert "st.async.shared::cluster" in ptx
    assert ".reqnctapercluster 1, 1, 1" in ptx


def test_as_many_share_the_depth_as_run_at_once():
    shapes = ((1, 128), (1, 44 * 128), (1, 133 * 128), (300, 44 * 128))
    assert [choose(*shape).split for shape in shapes] == [SPLITS[0], 2, 1, 1]
