"""Threads that wait for one another by flags in memory: right kernels, of which no analysis may say anything.

Each runs on a GPU and in the simulator as well: data behind a flag is as its writer left it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import i32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.diagnostics import DiagnosticError
from nvbackend.signature import Parameter, Pointer
from tests.support.devices import on_devices

WARP, ROUNDS = 32, 4
GLOBAL_FLAG = 3 * WARP


def _await(flag: Any, value: Any, k: Any, **order: str) -> None:
    with k.loop():
        k.break_if(flag.load(**order)[0] == value)


def between_warps(k: Any, out: Any, order: dict[str, str], other: dict[str, str]) -> None:
    data, flag, thread = k.shared(i32, WARP), k.shared(i32, 1), k.thread_id()
    with k.if_(thread == 0):
        flag[0] = 0
    k.barrier.sync()
    with k.if_(thread < WARP):
        data[thread] = thread + 1
        k.warp.sync()
        with k.if_(thread == 0):
            flag.store(1, **order)
    with k.else_():
        _await(flag, 1, k, **other)
        out[thread - WARP] = data[thread - WARP]


RELEASE, ACQUIRE = ({"order": order, "scope": "cta"} for order in ("release", "acquire"))


def by_a_flag(k: Any, out: Any) -> None:
    between_warps(k, out, RELEASE, ACQUIRE)


def by_a_flag_in_global_memory(k: Any, out: Any) -> None:
    data, thread = k.shared(i32, WARP), k.thread_id()
    with k.if_(thread < WARP):
        data[thread] = thread + 1
        k.warp.sync()
        with k.if_(thread == 0):
            (out + GLOBAL_FLAG).store(1, **RELEASE)
    with k.else_():
        _await(out + GLOBAL_FLAG, 1, k, **ACQUIRE)
        out[thread - WARP] = data[thread - WARP]


def by_fences(k: Any, out: Any) -> None:
    data, flag, thread = k.shared(i32, WARP), k.shared(i32, 1), k.thread_id()
    relaxed = {"order": "relaxed", "scope": "cta"}
    with k.if_(thread == 0):
        flag[0] = 0
    k.barrier.sync()
    with k.if_(thread == 0):
        for index in range(WARP):
            data[index] = index + 1
        k.fence.thread("acq_rel", "cta")
        flag.store(1, **relaxed)
    with k.if_(thread >= WARP):
        _await(flag, 1, k, **relaxed)
        k.fence.thread("acq_rel", "cta")
        out[thread - WARP] = data[thread - WARP]


def in_turns(k: Any, out: Any) -> None:
    data, flag, thread = k.shared(i32, WARP), k.shared(i32, 1), k.thread_id()
    with k.if_(thread == 0):
        flag[0] = 0
    k.barrier.sync()
    with k.if_(thread < WARP), k.range(ROUNDS) as turn:
        _await(flag, 2 * turn, k, **ACQUIRE)
        data[thread] = thread + 1 + ROUNDS - 1 - turn
        k.warp.sync()
        with k.if_(thread == 0):
            flag.store(2 * turn + 1, **RELEASE)
    with k.else_(), k.range(ROUNDS) as turn:
        _await(flag, 2 * turn + 1, k, **ACQUIRE)
        out[thread - WARP] = data[thread - WARP]
        k.warp.sync()
        with k.if_(thread == WARP):
            flag.store(2 * turn + 2, **RELEASE)


def _of_cluster(k: Any, out: Any, *, pushes: bool) -> None:
    """CTA 0 fills its own memory, which CTA 1 polls and reads, or that of CTA 1."""
    data, flag, thread = k.shared(i32, WARP), k.shared(i32, 1), k.thread_id()
    rank = 1 if pushes else 0
    with k.if_(thread == 0):
        flag[0] = 0
    k.cluster.sync()
    remote = [k.cluster.map_shared_rank(one, rank) for one in (data, flag)]
    writes, reads = (remote, [data, flag]) if pushes else ([data, flag], remote)
    with k.if_((k.cluster.rank() == 0) & (thread < WARP)):
        writes[0][thread] = thread + 1
        k.warp.sync()
        with k.if_(thread == 0):
            writes[1].store(1, order="release", scope="cluster")
    with k.if_((k.cluster.rank() == 1) & (thread < WARP)):
        _await(reads[1], 1, k, order="acquire", scope="cluster")
        out[thread] = reads[0][thread]
    k.cluster.sync()


def pushed_to_a_peer(k: Any, out: Any) -> None:
    _of_cluster(k, out, pushes=True)


def pulled_from_a_peer(k: Any, out: Any) -> None:
    _of_cluster(k, out, pushes=False)


KERNELS = {
    **dict.fromkeys((by_a_flag, by_a_flag_in_global_memory, by_fences, in_turns), 1),
    **dict.fromkeys((pushed_to_a_peer, pulled_from_a_peer), 2),
}


def _built(body: Any, cluster: int) -> Any:
    parameters = [Parameter("out", Pointer(i32))]
    k: Any = KernelBuilder("flags", "sm_90a", threads=2 * WARP, cluster=cluster, parameters=parameters)
    body(k, *k.arguments)
    return k.finish()


@pytest.mark.parametrize("body", KERNELS)
def test_nothing_is_said_of_them(body: Any) -> None:
    assert _built(body, KERNELS[body]).diagnostics == ()


@on_devices
@pytest.mark.parametrize("body", KERNELS)
def test_data_is_there_once_its_flag_is(device: str, body: Any) -> None:
    from numba import cuda

    loaded = nvb.runtime.load(_built(body, KERNELS[body]).compile())
    out = cuda.to_device(np.zeros(4 * WARP, np.int32))
    loaded.launch(KERNELS[body], out)
    loaded.synchronize()
    assert np.array_equal(out.copy_to_host()[:WARP], np.arange(1, WARP + 1))


@pytest.mark.parametrize("side", [0, 1])
def test_a_relaxed_side_is_seen_when_it_runs(side: int) -> None:
    orders = [RELEASE, ACQUIRE]
    orders[side] = {"order": "relaxed", "scope": "cta"}
    compiled = _built(lambda k, out: between_warps(k, out, *orders), 1).compile(assemble=False)
    with pytest.raises(DiagnosticError) as refused:
        nvb.runtime.load(compiled, device="simulator").launch(1, np.zeros(4 * WARP, np.int32))
    assert [one.rule.id for one in refused.value.diagnostics] == ["simulator.flag-order"]
