"""What Python cannot do with a value of a kernel: each row of the table of advice has an operation that draws it."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend.builder.kernel.python_function import _INSTEAD, _OTHERWISE
from nvbackend.layout import Layout

TILE = nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, nvb.f32, 8, 32)


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
    "element of an accumulator": (
        "'Accumulator' object does not support item",
        lambda k, x: operator.setitem(k.wgmma.accumulator(16), 0, 1.0),
    ),
    "element of a tile's elements": (
        "'TileValues' object does not support item",
        lambda k, x: operator.setitem(k.wgmma.accumulator(16).elements(), 0, 1.0),
    ),
    "power of elements": ("'TileValues'", lambda k, x: k.wgmma.accumulator(16).elements() ** 2),
    "call of elements": (
        "'TileValues' object is not callable",
        lambda k, x: k.wgmma.accumulator(16).elements()(),
    ),
    "call of a value for each row": (
        "'AxisValues' object is not callable",
        lambda k, x: k.wgmma.accumulator(16).rows(1.0)(),
    ),
    "NumPy's function of elements": ("'TileValues'", lambda k, x: np.exp(k.wgmma.accumulator(16).elements())),
    "power of a value for each row": ("'AxisValues'", lambda k, x: k.wgmma.accumulator(16).rows(1.0) ** 2),
    "matrix product": ("operand type(s) for @", lambda k, x: x[0] @ x[1]),
    "order of addresses": ("supported between instances of 'Address'", lambda k, x: x < x + 1),
    "product of an address": ("'Address'", lambda k, x: x * 2),
    "product of a tensor": ("'Tensor'", lambda k, x: k.tensor(x, Layout((4, 4))) * 2),
    "element of a tile": ("'SharedTile'", lambda k, x: k.shared_tile(TILE)[0, 0]),
    "call": ("not callable", lambda k, x: x[0]()),
    "NumPy's function that k.math lacks": ("", lambda k, x: np.arctan(x[0])),
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


TABLE, NAMED = np.arange(32.0).reshape(4, 8), {0: 1.0}
TABLES: dict[str, Callable[[Any, Any], object]] = {
    "array": lambda k, v: TABLE[v],
    "second axis": lambda k, v: TABLE[1, v],
    "arithmetic": lambda k, v: TABLE[v * 2 + 1],
    "call": lambda k, v: TABLE[k.lane_id()],
    "slice": lambda k, v: TABLE[v:],
    "end of a list": lambda k, v: [1, 2][:v],
    "variable": lambda k, v: TABLE[k.var(0)],
    "dict": lambda k, v: NAMED[v],
    "dict and a call": lambda k, v: NAMED[k.lane_id() + 1],
    "list": lambda k, v: [1.0, 2.0][v],
}


def _refused(operation: Callable[[Any, Any], object]) -> nvb.Diagnostic:
    @nvb.kernel("sm_90a", threads=128)
    def kernel(k, x: nvb.Pointer[nvb.i32]):  # type: ignore[no-untyped-def, valid-type]
        operation(k, x[0])

    with pytest.raises(nvb.DiagnosticError) as caught:
        kernel.build()
    (found,) = caught.value.diagnostics
    return found


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_python_is_not_read_by_a_value(name: str) -> None:
    found = _refused(TABLES[name])
    assert found.rule_id == "value.number"
    assert "k.constant.array" in found.fix
    assert found.location is not None
    assert found.location.file == __file__


def test_the_fix_reads_the_table() -> None:
    @nvb.kernel("sm_90a", threads=32)
    def kernel(k, out: nvb.Pointer[nvb.f32]):  # type: ignore[no-untyped-def, valid-type]
        table = k.constant.array(TABLE, nvb.f32)
        out[k.lane_id()] = table[k.lane_id() // 8, k.lane_id() % 8]

    out = np.zeros(32, np.float32)
    nvb.runtime.load(kernel.compile(cache=nvb.Cache.disabled()), device="simulator").launch(1, out)
    assert np.array_equal(out, TABLE.reshape(-1))


@pytest.mark.parametrize("index", [1.5, "a", 7])
def test_other_wrong_indices_are_left_to_their_own_error(index: Any) -> None:
    for table, error in ((TABLE, IndexError), (NAMED, KeyError)):
        with pytest.raises(error):
            nvb.kernel("sm_90a", threads=128)(_reading(table, index)).build()


def _reading(table: Any, index: Any) -> Callable[[Any], None]:
    def kernel(k: Any) -> None:
        lane = k.lane_id()
        assert lane is not None
        table[index]

    return kernel


def test_arrays_of_values_are_arrays_of_objects() -> None:
    made = []

    @nvb.kernel("sm_90a", threads=32)
    def kernel(k, out: nvb.Pointer[nvb.i32]):  # type: ignore[no-untyped-def, valid-type]
        values = np.array([[k.lane_id(), k.lane_id() + 1]], dtype=object) * 2
        made.append(values)
        out[k.lane_id()] = values[0, 1] + {k.lane_id: values[0, 0]}[k.lane_id]

    out = np.zeros(32, np.int32)
    nvb.runtime.load(kernel.compile(cache=nvb.Cache.disabled()), device="simulator").launch(1, out)
    assert made[0].dtype == object
    assert np.array_equal(out, 4 * np.arange(32) + 2)


def test_a_number_of_numpy_to_the_left_of_elements_is_a_number() -> None:
    k = nvb.KernelBuilder("k", "sm_80", threads=32)
    acc = k.tiled_mma(nvb.mma.sync("m16n8k16", nvb.f16, nvb.f16, nvb.f32), tile=(16, 8)).accumulator()
    elements, rows = np.float32(2) * acc.elements(), np.float64(3) + acc.rows(1.0)
    assert isinstance(elements, nvb.TileValues) and isinstance(rows, nvb.AxisValues)
    assert elements.element is nvb.f32
