"""What orders the lanes of a warp, where a kernel runs."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from tests.support.lanes_apart import CASES, Case

SEEDS = range(4)
MISSING, REFILL = "simulator.missing-warp-sync", "proxy.refill-in-flight"


def rules(case: Case) -> set[str]:
    """The rules that runs of the kernel break, "" for none."""
    compiled = case.kernel.build(**case.constants, check=False).compile(cache=nvb.Cache.disabled(), assemble=False)
    rounds = [4] * (len(compiled.signature.parameters) - 2)
    found = set()
    for seed in SEEDS:
        arrays = np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32)
        try:
            nvb.runtime.load(compiled, device="simulator", seed=seed).launch(2, *arrays, *rounds)
            found.add("")
        except nvb.DiagnosticError as error:
            found.add(error.diagnostics[0].rule_id)
    return found


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_lanes_that_nothing_orders_are_found_and_no_others(case: Case) -> None:
    found = rules(case)
    assert found <= {MISSING, REFILL} if case.is_told_by_a_run else found == {""}, found
