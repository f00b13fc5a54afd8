"""A value of another type than its place takes: the diagnostic says which of the two is to be changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import nvbackend as nvb
from nvbackend import f16, f32, u32
from nvbackend.builder.core.memory import Address
from nvbackend.diagnostics import Diagnostic, gather


def told(write: Callable[[nvb.KernelBuilder, Address, Address], object]) -> Diagnostic:
    parameters = [nvb.Parameter("x", nvb.Pointer(f16)), nvb.Parameter("out", nvb.Pointer(f32))]
    k = nvb.KernelBuilder("k", "sm_90a", threads=32, parameters=parameters)
    (found,) = gather(lambda: write(k, *k.arguments))
    assert found.rule_id == "value.type"
    return found


def test_a_store_wants_the_type_of_the_memory() -> None:
    found = told(lambda k, x, out: out.store(x[0]))
    assert (found.message, found.fix) == ("expected f32, but the value is f16", "convert it: .to(f32)")
    k = nvb.KernelBuilder("k", "sm_90a", threads=32, parameters=[nvb.Parameter("x", nvb.Pointer(f16))])
    assert k.arguments[0][0].to(f32).type is f32


def test_a_register_of_packed_elements_is_not_a_number() -> None:
    assert "bitcast" in told(lambda k, x, out: out.cast(u32).store(x[0])).fix


@pytest.mark.parametrize("swapped", [True, False])
def test_a_predicate_chooses(swapped: bool) -> None:
    def multiply(k: nvb.KernelBuilder, x: Address, out: Address) -> object:
        inside = k.thread_id() < 4
        return inside * out[0] if swapped else out[0] * inside

    assert told(multiply).fix == "choose by the predicate: k.select(condition, a, b)"
