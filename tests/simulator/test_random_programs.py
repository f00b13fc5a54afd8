"""Random programs in the simulator, against each thread followed by itself."""

from __future__ import annotations

import numpy as np
import pytest

from nvbackend.simulator import Simulator
from tests.simulator.random_programs import COUNTERS, THREADS, VARIABLES, Drawer, Follower, Printer


def check(seed: int, order: int = 0) -> None:
    program = Drawer(seed).program()
    text = Printer().text(program)
    rows = np.random.default_rng(seed).integers(0, 2**32, (THREADS, VARIABLES), np.uint32)
    out, counters = np.zeros_like(rows), np.zeros(2 * COUNTERS, np.uint32)
    Simulator().load(text).launch("k", block=(THREADS,), args=[rows, out, counters], seed=order)
    follower = Follower(rows.tolist())
    follower.run(program)
    assert out.tolist() == follower.rows
    assert counters.tolist() == follower.counters["global"] + follower.counters["shared"]


@pytest.mark.parametrize("seed", range(30))
def test_programs(seed):
    check(seed)


@pytest.mark.parametrize("seed", range(5))
def test_programs_in_another_order(seed):
    check(seed, order=seed + 1)


@pytest.mark.exhaustive(seconds=100)
def test_many_programs():
    for seed in range(1000, 2000):
        check(seed, order=seed % 3)
