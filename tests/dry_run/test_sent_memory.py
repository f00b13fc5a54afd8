"""A bulk copy into a peer's shared memory reads its source until the peer has it: so long its own CTA must last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import u32

THREADS, BYTES = 128, 512
RULE = "cluster.exit-before-access"


def _kernel(sends: str, ends: Callable[[Any, Any], None]) -> nvb.KernelDefinition:
    """CTA 0 sends what it made to CTA 1, which stores it; then each does what `ends` says with its mbarriers."""

    @nvb.kernel("sm_90", threads=THREADS, cluster=2)
    def given(k, x: nvb.Pointer[u32], out: nvb.Pointer[u32]):
        mine, got = (k.shared(u32, THREADS, align=128, name=name) for name in ("mine", "got"))
        come, taken = (k.mbarrier.array(1, arrivals=1, name=name) for name in ("come", "taken"))
        thread, rank = k.thread_id(), k.cluster.rank()
        got[thread] = 0
        k.fence.proxy_async()
        with k.if_((thread == 0) & (rank == 1)):
            k.mbarrier.arrive(come, expect_tx=BYTES)
        k.mbarrier.ready()
        k.cluster.sync()
        with k.if_(rank == 0):
            mine[thread] = x[thread] * 2
            k.fence.proxy_async()
            k.barrier.sync()
            with k.if_(thread == 0):
                if sends == "store":
                    k.bulk.store(got, mine, BYTES, rank=1, barrier=come)
                else:
                    k.bulk.reduce(got, mine, BYTES, "add", u32, rank=1, barrier=come)
        with k.else_():
            k.mbarrier.wait(come, 0)
            out[thread] = got[thread]
        ends(k, taken)

    return given


def _peers_wait(k: Any, taken: Any) -> None:
    k.cluster.sync()


def _is_told(k: Any, taken: Any) -> None:
    """CTA 1 tells CTA 0 that it has everything; CTA 0 waits for that, and CTA 1 for the end of CTA 0."""
    with k.if_(k.cluster.rank() == 1), k.if_(k.thread_id() == 0):
        k.mbarrier.arrive(taken, rank=0)
    with k.else_():
        k.mbarrier.wait(taken, 0)


def _own_waits(k: Any, taken: Any) -> None:
    """A barrier of the CTA says nothing of the copy."""
    k.barrier.sync()


def _nothing(k: Any, taken: Any) -> None:
    pass


def _run(kernel: nvb.KernelDefinition, seed: int) -> np.ndarray:
    loaded = nvb.runtime.load(kernel.build(check=False).compile(assemble=False), device="simulator", seed=seed)
    out = np.zeros(THREADS, np.uint32)
    loaded.launch(2, np.arange(THREADS, dtype=np.uint32), out)
    return out


@pytest.mark.parametrize("sends", ["store", "reduce"])
@pytest.mark.parametrize("ends", [_peers_wait, _is_told])
def test_a_source_that_lasts_draws_nothing(sends: str, ends: Callable[[Any, Any], None]) -> None:
    kernel = _kernel(sends, ends)
    kernel.build()
    assert (_run(kernel, 0) == 2 * np.arange(THREADS)).all()


@pytest.mark.parametrize("sends", ["store", "reduce"])
@pytest.mark.parametrize("ends", [_own_waits, _nothing])
def test_a_source_whose_cta_ends_is_told(sends: str, ends: Callable[[Any, Any], None]) -> None:
    kernel = _kernel(sends, ends)
    with pytest.raises(nvb.DiagnosticError) as caught:
        kernel.build()
    assert [found.rule_id for found in caught.value.diagnostics] == [RULE]
    for seed in range(3):
        with pytest.raises(nvb.DiagnosticError) as caught:
            _run(kernel, seed)
        assert [found.rule_id for found in caught.value.diagnostics] == [RULE]
