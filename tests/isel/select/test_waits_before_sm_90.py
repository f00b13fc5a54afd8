"""What waits for a phase of an mbarrier on chips without try_wait: the fix names it, and works."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import i32


def kernel(target, *, polls):
    @nvb.kernel(target, threads=64)
    def waiting(k, out: nvb.Pointer[i32]):
        full = k.mbarrier.array(1, arrivals=1)
        k.mbarrier.ready()
        with k.if_(k.thread_id() == 0):
            k.mbarrier.arrive(full)
        if polls:
            with k.loop():
                k.break_if(k.mbarrier.test(full, parity=0))
        else:
            k.mbarrier.wait(full, 0)
        out[k.thread_id()] = 1

    return waiting


@pytest.mark.parametrize("target", ["sm_80", "sm_86", "sm_89"])
def test_a_loop_of_tests_is_what_there_is(target):
    with pytest.raises(nvb.DiagnosticError) as caught:
        kernel(target, polls=False).build()
    (found,) = caught.value.diagnostics
    assert found.rule_id == "target.feature"
    assert found.fix.endswith("with k.loop(): k.break_if(k.mbarrier.test(barrier, parity=parity))")
    out = np.zeros(64, np.int32)
    compiled = kernel(target, polls=True).compile(cache=nvb.Cache.disabled())
    nvb.runtime.load(compiled, device="simulator").launch(1, out)
    assert out.all()


def test_a_chip_without_any_is_told_of_none():
    with pytest.raises(nvb.DiagnosticError) as caught:
        kernel("sm_75", polls=False).build()
    assert all("k.mbarrier.test" not in one.fix for one in caught.value.diagnostics)
