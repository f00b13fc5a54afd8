"""Operators of the elements of a tile and of values for its rows and columns, either way round, against NumPy."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import e4m3, e5m2, f16, f32
from nvbackend.builder.tiles.elements.packing import packed
from nvbackend.intrinsics.row.types import ElementType

OPERATORS = (operator.add, operator.sub, operator.mul, operator.truediv)
FORMS: list[Callable[[Any, Any, Any], Any]] = [
    *(lambda x, y, n, op=op: op(x, y) for op in OPERATORS),
    *(lambda x, y, n, op=op: op(x, n) for op in OPERATORS),
    *(lambda x, y, n, op=op: op(n, x) for op in OPERATORS),
]
COMPARED = (operator.lt, operator.le, operator.gt, operator.ge)
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
        written = [x, y, *(form(x, y, 7.0) for form in FORMS), -x]
        if kind == "elements":
            written += [form(x, rows, 7.0) for form in FORMS[:4]]
            one, zero = k.const(1.0, f32), k.const(0.0, f32)
            told = [op(x, other) for op in COMPARED for other in (y, 7.0, rows)]
            written += [each.map(lambda holds: k.select(holds, one, zero)) for each in told]
        changed = k.var(x) if kind != "elements" else None
        if changed is not None:
            changed.set(y)
            written += [changed.value, -changed, changed.map(k.math.max, x)]
        counts.append((len(written), len(x)))
        for number, values in enumerate(written):
            for place, value in enumerate(values if kind == "elements" else [one for _, one in values.items()]):
                out[(number * len(x) + place) * LANES + k.lane_id()] = value

    compiled = computed.compile(assemble=False)
    (shape,) = counts[:1]
    got = np.zeros((*shape, LANES), np.float32)
    nvb.runtime.load(compiled, device="simulator").launch(1, got)
    x, y = got[:2]
    expected = [x, y, *(form(x, y, np.float32(7.0)) for form in FORMS), -x]
    if kind == "elements":
        held_rows = x - np.arange(LANES, dtype=np.float32)
        expected += [form(x, held_rows, None) for form in FORMS[:4]]
        expected += [op(x, other).astype(np.float32) for op in COMPARED for other in (y, np.float32(7.0), held_rows)]
        assert {0.0, 7.0} <= {*(x - held_rows).flat, *x.flat}  # each is equal to what it is compared with somewhere
    else:
        expected += [y, -y, np.maximum(y, x)]
    assert len(np.unique(x)) > 1
    assert np.array_equal(got, np.array(expected))


@pytest.mark.parametrize("change", [operator.iadd, operator.isub, operator.imul, operator.itruediv])
def test_an_operator_changes_a_variable_of_rows_in_place(change: Callable[[Any, Any], Any]) -> None:
    """In a loop, where an operator that only made other values would have no effect."""

    @nvb.kernel("sm_80", threads=LANES)
    def changed(k, out: nvb.Pointer[f32], rounds: nvb.i32):
        acc = k.tiled_mma(nvb.mma.sync("m16n8k16", f16, f16, f32)).accumulator()
        numbers = acc.rows(lambda row: (row + 2).to(f32))
        values = k.var(numbers)
        with k.range(rounds):
            assert change(values, numbers) is values
        for row, value in values.value.items():
            out[row] = value

    out = np.zeros(16, np.float32)
    nvb.runtime.load(changed.compile(assemble=False), device="simulator").launch(1, out, 2)
    numbers = np.arange(2, 18, dtype=np.float32)
    expected = change(change(numbers.copy(), numbers), numbers)
    assert np.array_equal(out, expected)


@pytest.mark.parametrize(("target", "pairs"), [("sm_75", 0), ("sm_80", 2)])
def test_two_f32_become_f16_at_once_where_there_is_an_instruction(target: str, pairs: int) -> None:
    """PTX ISA, cvt: .f16x2 from two .f32 needs sm_80."""

    @nvb.kernel(target, threads=LANES)
    def converted(k, x: nvb.Pointer[f32], out: nvb.Pointer[nvb.u32]):
        for place, word in enumerate(packed(k.core, [x[index] for index in range(4)], f16)):
            out[place] = word

    compiled = converted.compile(assemble=False)
    assert len(re.findall(r"cvt\.rn\.f16x2\.f32", compiled.ptx)) == pairs
    x, out = np.array([1.5, -2.25, 3e-5, 60000.0], np.float32), np.zeros(2, np.uint32)
    nvb.runtime.load(compiled, device="simulator").launch(1, x, out)
    assert np.array_equal(out.view(np.float16), x.astype(np.float16))


@pytest.mark.parametrize(("element", "four"), [(e4m3, 0x48B038BF), (e5m2, 0x44B83CC0)])
@pytest.mark.parametrize(("words", "rest"), [(1, 0), (3, 0), (2, 2)])
def test_four_f32_become_a_register_at_once(element: ElementType, four: int, words: int, rest: int) -> None:
    """By one text each, unless two are over. OCP 8-bit formats: a sign, 4 or 5 bits of exponent, bias 7 or 15."""
    count = 4 * words + rest

    @nvb.kernel("sm_89", threads=LANES)
    def converted(k, x: nvb.Pointer[f32], out: nvb.Pointer[nvb.u32]):
        for place, word in enumerate(packed(k.core, [x[index] for index in range(count)], element)):
            out[place] = word

    compiled = converted.compile(assemble=False)
    texts = re.findall(r"begin inline asm(.*?)end inline asm", compiled.ptx, re.DOTALL)
    pairs = [text.count("x2.f32") for text in texts if "x2.f32" in text]
    assert pairs == ([1] * (count // 2) if rest else [2] * words)
    x, out = np.array([-1.875, 1.0, -0.5, 4.0] * 4, np.float32), np.zeros(4, np.uint32)
    nvb.runtime.load(compiled, device="simulator").launch(1, x, out)
    assert out.tolist() == [*[four] * words, *[four & 0xFFFF] * bool(rest), 0, 0, 0][:4]
