"""k.thread_id without its parentheses, which Python compares with a number as it compares any two objects."""

from __future__ import annotations

import inspect
import operator

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import i32

CALLS = [
    *("k.thread_id", "k.block_id", "k.block_count", "k.lane_id", "k.warp_id", "k.warpgroup_id", "k.elect", "k.clock"),
    *("k.cluster.rank", "k.cluster.id", "k.cluster.count", "k.cluster.peer_rank", "k.warp.active_lanes"),
]
USES = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge, operator.add, operator.sub]
USES += [operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.and_, operator.or_, operator.xor]
USES += [operator.lshift, operator.rshift, divmod]


def builder() -> nvb.KernelBuilder:
    return nvb.KernelBuilder("k", "sm_90a", threads=128, cluster=2)


def method_of(k: nvb.KernelBuilder, call: str) -> object:
    return operator.attrgetter(call.removeprefix("k."))(k)


@pytest.mark.parametrize("call", CALLS)
def test_what_is_advised_is_a_value(call: str) -> None:
    k = builder()
    with pytest.raises(nvb.DiagnosticError, match=r"value\.kind") as caught:
        method_of(k, call) == 0  # noqa: B015
    (found,) = caught.value.diagnostics
    assert found.location is not None and found.location.file == __file__
    assert found.message.startswith(f"{call} cannot be used as")
    assert found.fix == f"call it: {call}()"
    assert isinstance(eval(f"{call}()", {"k": k}), nvb.Value)


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
def test_no_operator_takes_it_for_a_number(use) -> None:
    k = builder()
    for a, b in ((k.thread_id, 3), (3, k.thread_id), (k.thread_id, k.lane_id), (k.thread_id, k.lane_id())):
        with pytest.raises(nvb.DiagnosticError, match=r"fix: call it: k\.(thread|lane)_id\(\)"):
            use(a, b)
    for alone in (bool, int, float, operator.neg, operator.invert, range):
        with pytest.raises(nvb.DiagnosticError, match=r"call it: k\.thread_id\(\)"):
            alone(k.thread_id)


@pytest.mark.parametrize("call", CALLS)
def test_attributes_are_those_of_what_it_gives(call: str) -> None:
    """As threadIdx.x is of CUDA C++."""
    method = method_of(builder(), call)
    takes_axis = "axis" in inspect.signature(method).parameters  # type: ignore[arg-type]
    for name, fix in (("x", f'call it with the axis: {call}("x")' if takes_axis else ""), ("exp", "")):
        with pytest.raises(nvb.DiagnosticError, match=r"value\.attribute") as caught:
            getattr(method, name)
        (found,) = caught.value.diagnostics
        assert found.message == f"{call}, which is a call, has no .{name}"
        assert found.fix == (fix or f"call it: {call}()")
        assert not hasattr(method, name)
    with pytest.raises(AttributeError, match="has no attribute '__array_interface__'") as asked:
        getattr(method, "__array_interface__")  # noqa: B009, what NumPy asks for
    assert not isinstance(asked.value, nvb.DiagnosticError)


def test_a_condition_is_not_false_in_silence() -> None:
    """Python's own comparison is: nobody would store."""

    @nvb.kernel("sm_80", threads=32)
    def stored(k: nvb.KernelBuilder, out: nvb.Pointer[i32], *, called: bool = True) -> None:
        with k.if_((k.thread_id() if called else k.thread_id) == 3):
            out[0] = 7

    with pytest.raises(nvb.DiagnosticError, match=r"value\.kind.*k\.thread_id"):
        stored.build(called=False)
    out = np.zeros(1, np.int32)
    nvb.runtime.load(stored.compile(assemble=False), device="simulator").launch(1, out)
    assert out[0] == 7


@pytest.mark.parametrize("call", CALLS)
def test_it_is_called_and_described_as_ever(call: str) -> None:
    k = builder()
    method = method_of(k, call)
    owner, _, name = call.rpartition(".")
    plain = getattr(type(eval(owner, {"k": k})), name)
    assert [*inspect.signature(method).parameters] == [*inspect.signature(plain).parameters][1:]  # type: ignore[arg-type]
    assert method in {method: 1} and repr(method) == call
