"""Operators of the elements of a tile and of values for its rows and columns, either way round, against NumPy."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f16, f32

OPERATORS = (operator.add, operator.sub, operator.mul, operator.truediv)
FORMS: list[Callable[[Any, Any, Any], Any]] = [
    *(lambda x, y, n, op=op: op(x, y) for op in OPERATORS),
    *(lambda x, y, n, op=op: op(x, n) for op in OPERATORS),
    *(lambda x, y, n, op=op: op(n, x) for op in OPERATORS),
]
LANES = 32


@pytest.mark.parametrize("kind", ["elements", "rows", "columns"])
def test_an_operator_takes_its_operands_in_order(kind: str) -> None:
    counts = []

    @nvb.kernel("sm_80", threads=LANES)
    def computed(k, out: nvb.Pointer[f32]):
        acc = k.tiled_mma(nvb.mma.sync("m16n8k16", f16, f16, f32)).accumulator()
        lane = k.lane_id().to(f32)
        acc.set(acc.map(lambda _: lane))
        rows, columns = acc.rows(lambda row: (row + 3).to(f32)), acc.columns(lambda column: (column + 5).to(f32))
        x = {"elements": acc.elements() + rows, "rows": rows, "columns": columns}[kind]
        y = x.map(lambda value: value * 0.375 - 9.3)
        written = [x, y, *(form(x, y, 7.0) for form in FORMS)]
        if kind == "elements":
            written += [form(x, rows, 7.0) for form in FORMS[:4]]
        changed = k.var(x) if kind != "elements" else None
        if changed is not None:
            changed.set(y)
            written.append(changed.value)
        counts.append((len(written), len(x)))
        for number, values in enumerate(written):
            for place, value in enumerate(values if kind == "elements" else [one for _, one in values.items()]):
                out[(number * len(x) + place) * LANES + k.lane_id()] = value

    compiled = computed.compile(assemble=False)
    (shape,) = counts[:1]
    got = np.zeros((*shape, LANES), np.float32)
    nvb.runtime.load(compiled, device="simulator").launch(1, got)
    x, y = got[:2]
    expected = [x, y, *(form(x, y, np.float32(7.0)) for form in FORMS)]
    if kind == "elements":
        held_rows = x - np.arange(LANES, dtype=np.float32)
        expected += [form(x, held_rows, None) for form in FORMS[:4]]
    else:
        expected.append(y)
    assert len(np.unique(x)) > 1
    assert np.array_equal(got, np.array(expected))
