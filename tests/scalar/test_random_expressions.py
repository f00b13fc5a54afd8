"""Random expressions of all element types, against NumPy: on the host, as LLVM optimised them, and on a GPU."""

from __future__ import annotations

import pytest

from tests.scalar.kernels import batch, gpu_results, host_results

ONE_OF = 2
"""Of the kernels of the host one of so many is in the ordinary run."""
pytestmark = pytest.mark.sampled(ONE_OF)

COUNT, DEPTH = 200, 5
"""Expressions of a kernel, and the operations from an input to a result at most."""
KERNELS = 20
OLDER = ("sm_75", "sm_80")
MISTAKEN = (20128, 20175, 20176, 20221, 20363, 20581, 20629)
"""Kernels of which ptxas made wrong code, where comparisons became floats and maxima of 16 bits were packed."""


@pytest.mark.parametrize("seed", range(KERNELS))
def test_expressions_on_the_host(seed):
    """4,000 expressions, each of 32 rows of inputs."""
    drawn = batch(seed, COUNT, DEPTH)
    assert drawn.differences(host_results(drawn)) == []


def test_thousands_are_in_the_ordinary_run():
    assert KERNELS // ONE_OF * COUNT >= 2000


@pytest.mark.parametrize("seed", range(500, 506))
def test_expressions_of_plain_constants_on_the_host(seed):
    """1,200 expressions that LLVM has rules for."""
    drawn = batch(seed, COUNT, DEPTH, plain=True)
    assert drawn.differences(host_results(drawn)) == []


@pytest.mark.parametrize("target", OLDER)
def test_expressions_for_older_targets(target):
    """200 expressions, of which some are more instructions there."""
    drawn = batch(1000, 100, DEPTH, target)
    assert drawn.differences(host_results(drawn)) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(1000, 1500))
def test_a_hundred_thousand_expressions_on_the_host(seed):
    drawn = batch(seed, COUNT, DEPTH)
    assert drawn.differences(host_results(drawn)) == []


@pytest.mark.gpu((9, 0))
@pytest.mark.parametrize("seed", range(2000, 2010))
def test_expressions_on_a_gpu(seed):
    """2,000 expressions."""
    drawn = batch(seed, COUNT, DEPTH)
    assert drawn.differences(gpu_results(drawn)) == []


@pytest.mark.gpu((9, 0))
@pytest.mark.parametrize("seed", range(2500, 2510))
def test_expressions_of_plain_constants_on_a_gpu(seed):
    """2,000 expressions that ptxas has rules for."""
    drawn = batch(seed, COUNT, DEPTH, plain=True)
    assert drawn.differences(gpu_results(drawn)) == []


@pytest.mark.gpu((9, 0))
@pytest.mark.parametrize("seed", MISTAKEN)
def test_expressions_that_ptxas_mistook(seed):
    drawn = batch(seed, COUNT, DEPTH + seed % 3)
    assert drawn.differences(gpu_results(drawn)) == []


@pytest.mark.gpu((9, 0))
@pytest.mark.parametrize("seed", range(2100, 2102))
@pytest.mark.parametrize("target", OLDER)
def test_expressions_for_older_targets_on_a_gpu(target, seed):
    """800 expressions."""
    drawn = batch(seed, COUNT, DEPTH, target)
    assert drawn.differences(gpu_results(drawn)) == []


@pytest.mark.exhaustive
@pytest.mark.gpu((9, 0))
@pytest.mark.parametrize("seed", range(3000, 3050))
def test_ten_thousand_expressions_on_a_gpu(seed):
    drawn = batch(seed, COUNT, DEPTH)
    assert drawn.differences(gpu_results(drawn)) == []
