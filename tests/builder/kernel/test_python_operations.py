"""What Python cannot do with a value of a kernel: each row of the table of advice has an operation that draws it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend.builder.kernel.python_function import _INSTEAD, _OTHERWISE


def _unpacked(k: Any, x: Any) -> None:
    with k.range(3) as (i, j):
        x[0] = i + j


OPERATIONS: dict[str, tuple[str, Callable[[Any, Any], object]]] = {
    "product of an accumulator": ("'Accumulator'", lambda k, x: k.wgmma.accumulator(16) * 2.0),
    "product of a register tensor": ("'RegisterTensor'", lambda k, x: k.register_tensor(nvb.f32, 4) * 2.0),
    "power": ("pow()", lambda k, x: x[0] ** 2),
    "absolute": ("abs()", lambda k, x: abs(x[0])),
    "rounded": ("__round__", lambda k, x: round(x[0])),
    "length": ("len()", lambda k, x: len(x[0])),
    "counters": ("cannot unpack", _unpacked),
    "int": ("int()", lambda k, x: int(x[0])),
    "float": ("float()", lambda k, x: float(x[0])),
    "square root": ("real number", lambda k, x: math.sqrt(x[0])),
    "place in a list": ("indices must be integers", lambda k, x: [1, 2][x[0]]),
    "Python's range": ("interpreted as an integer", lambda k, x: range(x[0])),
    "elements": ("not iterable", lambda k, x: list(x[0])),
    "call": ("", lambda k, x: x[0]()),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_advice_is_about_what_was_written(name: str) -> None:
    part, operation = OPERATIONS[name]

    @nvb.kernel("sm_90a", threads=128)
    def kernel(k, x: nvb.Pointer[nvb.i32]):  # type: ignore[no-untyped-def, valid-type]
        operation(k, x)

    with pytest.raises(nvb.DiagnosticError) as caught:
        kernel.build()
    (found,) = caught.value.diagnostics
    assert found.rule_id == "value.number"
    assert part in found.message
    assert found.fix == (_INSTEAD[part] if part else _OTHERWISE)
    assert found.location is not None
    assert found.location.file == __file__


def test_every_row_of_the_table_has_an_operation() -> None:
    assert {part for part, _ in OPERATIONS.values()} == {*_INSTEAD, ""}
