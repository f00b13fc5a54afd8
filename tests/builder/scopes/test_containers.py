"""Python's containers of values and variables: what they hold, and what may not leave a block."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass, replace

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, Variable, f32, i32
from tests.support.devices import on_devices, target_on

THREADS = 32


@dataclass
class Running:
    """What a thread carries along: a container of the build."""

    total: Variable
    largest: Variable
    seen: dict[str, Variable]


Pair = namedtuple("Pair", "low high")


@on_devices
def test_variables_in_every_container(device) -> None:
    from numba import cuda

    from nvbackend import runtime

    @nvb.kernel("sm_80", threads=THREADS)
    def kernel(k, x: nvb.Pointer[f32], out: nvb.Pointer[f32]):
        t = k.thread_id()
        lanes = [k.var(0.0) for _ in range(3)]
        state = Running(k.var(0.0), k.var(-100.0), {"odd": k.var(0), "even": k.var(0)})
        pair = Pair(k.var(100.0), k.var(-100.0))
        with k.range(6) as i:
            value = x[t * 6 + i]
            for n in range(3):
                with k.if_(i % 3 == n):
                    lanes[n] += value * (n + 1.0)
            state.total += value
            state.largest.set(k.math.max(state.largest, value))
            with k.if_(i % 2 == 1):
                state.seen["odd"] += 1
            with k.else_():
                state.seen["even"] += 2
            pair.low.set(k.math.min(pair.low, value))
            pair.high.set(k.math.max(pair.high, value))
        results = [*lanes, state.total, state.largest, *(seen.value.to(f32) for seen in state.seen.values()), *pair]
        for n, result in enumerate(results):
            out[t * len(results) + n] = result

    x = np.random.default_rng(0).integers(-50, 50, (THREADS, 6)).astype(np.float32)
    loaded = runtime.load(kernel.compile(target=target_on(device, "sm_80")))
    out = cuda.to_device(np.zeros((THREADS, 9), np.float32))
    loaded.launch(1, cuda.to_device(x), out)
    loaded.synchronize()
    lanes = [(x[:, n] + x[:, n + 3]) * (n + 1) for n in range(3)]
    counts = [np.full(THREADS, 3.0), np.full(THREADS, 6.0)]
    expected = [*lanes, x.sum(1), x.max(1), *counts, x.min(1), x.max(1)]
    assert np.array_equal(out.copy_to_host(), np.stack(expected, 1))


def refused(body):
    @nvb.kernel("sm_80", threads=THREADS)
    def kernel(k, out: nvb.Pointer[f32], n: i32):
        body(k, out, n)

    with pytest.raises(DiagnosticError) as raised:
        kernel.build()
    return raised.value.diagnostics[0]


def in_a_list(k, out, n):
    values = [k.const(0.0, f32)]
    with k.if_(n > 0):
        values[0] = values[0] + out[1]
    out[0] = values[0]  # here


def in_a_loop(k, out, n):
    values = [k.const(0.0, f32)]
    with k.range(n) as i:
        values[0] = values[0] + out[i]
    out[0] = values[0]  # here


def in_a_dict(k, out, n):
    values = {}
    with k.if_(n > 0):
        values["sum"] = out[1] * 2.0
    out[0] = values["sum"]  # here


def in_a_dataclass(k, out, n):
    state = Running(out[1], out[2], {})
    with k.range(n):
        state = replace(state, total=state.total + 1.0)
    out[0] = state.total  # here


def in_a_tuple(k, out, n):
    pair = (out[0], out[1])
    with k.if_(n > 0):
        pair = (pair[1] + 1.0, pair[0] + 1.0)
    out[0] = pair[0]  # here


def by_append(k, out, n):
    values = []
    with k.range(4) as i:
        values.append(out[i])
    out[0] = sum(values)  # here


def a_variable(k, out, n):
    kept = []
    with k.if_(n > 0):
        kept.append(k.var(1.0))
    kept[0] += 1.0  # here


@pytest.mark.parametrize(
    "body",
    [in_a_list, in_a_loop, in_a_dict, in_a_dataclass, in_a_tuple, by_append, a_variable],
    ids=lambda b: b.__name__,
)
def test_what_a_block_made_does_not_leave_it_in_a_container(body) -> None:
    fault = refused(body)
    assert fault.rule.id == "value.scope"
    assert fault.location.source.endswith("# here")


def test_a_value_as_an_index_of_a_list_is_refused() -> None:
    fault = refused(lambda k, out, n: [1, 2][n])
    assert fault.rule.id == "value.number"
    assert "k.select" in fault.fix
