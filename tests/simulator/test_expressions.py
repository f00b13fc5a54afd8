"""Random expressions of all element types: the PTX that LLVM makes of them, simulated, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from nvbackend.codegen.llvm import compile_ir
from nvbackend.simulator import Simulator
from tests.scalar.expressions import ROWS
from tests.scalar.kernels import Batch, batch

TARGETS = ("sm_75", "sm_80", "sm_100a")


def simulated(given: Batch) -> np.ndarray:
    """What the kernel writes in the simulator."""
    results = given.results
    ptx = compile_ir(given.kernel.ir, given.kernel.target).ptx
    name = given.kernel.signature.name
    Simulator().load(ptx).launch(name, block=(ROWS,), args=[given.words, results])
    return results


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(5))
def test_expressions(seed):
    """1,000 expressions, each of 32 rows of inputs."""
    drawn = batch(seed, 200, 5)
    assert drawn.differences(simulated(drawn)) == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("target", TARGETS)
def test_expressions_for_other_targets(target):
    """300 expressions; LLVM prints other instructions for older chips and newer ones."""
    drawn = batch(1000, 100, 5, target)
    assert drawn.differences(simulated(drawn)) == []


@pytest.mark.parametrize("seed", [1345, 1359, 1440])
def test_large_shift_amounts_and_sums_with_infinity(seed):
    """Where LLVM folded a shift by 64 bits into one by 32, and where products overflow next to infinity."""
    drawn = batch(seed, 200, 5 + seed % 3, ("sm_90a", *TARGETS)[seed % 4])
    assert drawn.differences(simulated(drawn)) == []


@pytest.mark.exhaustive(seconds=5)
@pytest.mark.parametrize("seed", range(1000, 1500))
def test_a_hundred_thousand_expressions(seed):
    drawn = batch(seed, 200, 5 + seed % 3, ("sm_90a", *TARGETS)[seed % 4])
    assert drawn.differences(simulated(drawn)) == []
