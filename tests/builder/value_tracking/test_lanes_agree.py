"""Which lanes certainly have one value after a shuffle, and which variables a value is computed from: by reasoning."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend.builder.value_tracking.expressions.provenance import variables
from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.signature import Parameter, Pointer, Scalar

ALL, HALF = 0xFFFFFFFF, 0xFFFF


def builder() -> nvb.KernelBuilder:
    parameters = [Parameter("p", Pointer(nvb.s32)), Parameter("n", Scalar(nvb.s32))]
    return nvb.KernelBuilder("lanes", "sm_90a", threads=128, parameters=parameters)


LANES = {
    "a number": (lambda k, n: 3, True),
    "an argument": (lambda k, n: n & 31, True),
    "the warp's": (lambda k, n: k.warp_id(), True),
    "each its own": (lambda k, n: 31 - k.lane_id(), False),
}


@pytest.mark.parametrize("members", [ALL, HALF])
@pytest.mark.parametrize("width", [32, 8])
@pytest.mark.parametrize("mode", ["idx", "up", "down", "bfly"])
@pytest.mark.parametrize("lane", LANES)
def test_all_lanes_have_what_one_lane_sends_to_all(lane: str, mode: str, width: int, members: int) -> None:
    of, is_one = LANES[lane]
    k = builder()
    p, n = k.arguments
    other = of(k, n)
    named = members if members == ALL else p[0].bitcast(nvb.u32)  # members that nobody knows
    unknown = k.warp.shuffle(p[k.thread_id()], mode, other, width=width, members=named)
    one = mode == "idx" and width == 32 and is_one and members == ALL
    assert (k.core.execution.known(unknown.ir).certain >= Scope.WARP) == one
    of_warp = k.warp.shuffle(p[k.thread_id()], "idx", 0)  # which lanes exchange in vain
    again = k.warp.shuffle(of_warp, mode, other, width=width, members=named)
    assert k.core.execution.known(again.ir).certain == Scope.WARP
    same = k.warp.shuffle(n, mode, other, width=width, members=named)
    assert k.core.execution.known(same.ir).certain == k.core.execution.known(n.ir).certain >= Scope.CTA


def test_the_variables_of_a_value() -> None:
    k = builder()
    p, n = k.arguments
    first, second = k.var(0, name="first"), k.var(1, name="second")
    names = [one._storage.slots[0].name for one in (first, second)]
    with k.range(n):  # in which both are read anew
        pairs = (
            (first + 1, {names[0]}),
            (first * n + second, set(names)),
            (n + k.thread_id(), set()),
            (k.warp.shuffle(first.value, "idx", 0), {names[0]}),
            (first + p[0], None),
            (first + k.warp.reduce("add", n), None),
            (first + k.warp.active_lanes().bitcast(nvb.s32), None),
        )
        chain = first.value
        for _ in range(100):
            chain = chain * n
        assert [variables(value.ir) for value, _ in pairs] == [
            None if found is None else frozenset(found) for _, found in pairs
        ]
        assert variables(chain.ir) is None
        first += 1
        second += 1
