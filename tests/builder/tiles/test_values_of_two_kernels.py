"""Elements of a tile and values for its rows and columns, together with those of another kernel."""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, f16, f32

ATOM = nvb.mma.sync("m16n8k16", f16, f16, f32)
KINDS = ("elements", "rows", "columns")
TOGETHER = [*(("elements", other) for other in KINDS), ("rows", "rows"), ("columns", "columns")]
CALLS: dict[str, Callable[[Any, Any], object]] = {
    "+": operator.add,
    "*": operator.mul,
    "the other alone": lambda own, other: own.map(lambda _, value: value, other),
}


def values(name: str, what: str) -> Any:
    accumulator = nvb.KernelBuilder(name, "sm_80", threads=32).tiled_mma(ATOM).accumulator()
    return accumulator.elements() if what == "elements" else getattr(accumulator, what)(1.0)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(("own", "other"), TOGETHER)
def test_values_of_another_kernel_are_said_to_be_that(own: str, other: str, call: str) -> None:
    """They would go together if they were of one: only the kernel is wrong."""
    with pytest.raises(DiagnosticError, match=r"value\.kernel") as caught:
        CALLS[call](values("first", own), values("second", other))
    assert {"first", "second"} <= {*caught.value.diagnostics[0].message.split()}


@pytest.mark.parametrize(("one", "two"), [*product(KINDS[1:], repeat=2)])
def test_those_of_one_kernel_go_together_along_one_axis(one: str, two: str) -> None:
    accumulator = nvb.KernelBuilder("one", "sm_80", threads=32).tiled_mma(ATOM).accumulator()
    first, second = getattr(accumulator, one)(1.0), getattr(accumulator, two)(2.0)
    if one == two:
        assert len(first + second) == len(first)
    else:
        with pytest.raises(DiagnosticError, match=r"elements\.other"):
            first + second
