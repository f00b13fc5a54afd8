"""The dry run gives way to what LLVM's thread has to do before ptxas can begin, and to nothing else."""

from __future__ import annotations

import time
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import i32
from nvbackend.codegen import llvm as llvm_module
from nvbackend.dry_run.protocols.run import Run


@pytest.mark.parametrize("assemble", [True, False])
def test_the_dry_run_gives_way_to_what_ptxas_waits_for(monkeypatch: pytest.MonkeyPatch, assemble: bool) -> None:
    """It makes no step between the end of LLVM's work and the beginning of ptxas's."""
    steps, meanwhile = list[Any](), list[int]()
    execute, with_callers = Run.execute, llvm_module.with_callers

    def noted(run: Run, step: Any) -> Any:
        outcome = execute(run, step)
        time.sleep(0.002)
        steps.append(step)
        return outcome

    def slow(*given: Any) -> str:
        before = len(steps)
        time.sleep(0.2)
        meanwhile.append(len(steps) - before)
        return with_callers(*given)

    monkeypatch.setattr(Run, "execute", noted)
    monkeypatch.setattr(llvm_module, "with_callers", slow)

    @nvb.kernel("sm_80", threads=32)
    def syncing(k: Any, out: nvb.Pointer[i32]) -> None:
        with k.range(300) as i:
            k.barrier.sync()
            out[i] = i

    syncing.compile(cache=nvb.Cache.disabled(), assemble=assemble)
    assert len(steps) > 200  # it is longer than LLVM's work
    assert (meanwhile[0] <= 2) == assemble  # one was being made, and one was not noted yet
