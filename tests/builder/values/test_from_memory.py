"""Which values memory decides."""

from __future__ import annotations

import pytest

from nvbackend import KernelBuilder, Parameter, Pointer, i32
from nvbackend.builder.values.from_memory import is_from_memory


@pytest.mark.parametrize("loads", [True, False])
def test_a_value_that_is_reached_in_many_ways_is_looked_at_once(loads: bool) -> None:
    k = KernelBuilder("chain", "sm_90a", threads=32, parameters=[Parameter("x", Pointer(i32)), Parameter("n", i32)])
    x, n = k.arguments
    value = x[0] if loads else n + 0
    for _ in range(200):
        value = value * value
    assert is_from_memory(value.ir) == loads


def test_a_variable_is_no_memory() -> None:
    k = KernelBuilder("held", "sm_90a", threads=32, parameters=[Parameter("x", Pointer(i32)), Parameter("n", i32)])
    x, n = k.arguments
    variable = k.var(n)
    with k.range(4) as i:
        variable.set(i)
    assert not is_from_memory((variable + 1).ir)
    assert is_from_memory(n.ir, k.uniform(x[1]).ir)
    assert is_from_memory(k.atomic.add(x, 1).ir)
