"""Where D of tcgen05.mma lies in tensor memory, against the layouts of CUTLASS's tmem_frg, as shapes and strides."""

from __future__ import annotations

import itertools

import pytest

import nvbackend as nvb
from nvbackend.intrinsics.maps.tcgen05 import ACCUMULATOR_LAYOUTS, accumulator_cell

N = 64
LANES = 128
LAYOUTS = {
    # (rows of a CTA): (stride); (columns): (stride), in addresses of lane + 128 * column
    (2, False, 256): (((128,), (1,)), ((N,), (128,))),
    (2, False, 128): (((64,), (1,)), ((N // 2, 2), (128, 64))),
    (1, False, 128): (((128,), (1,)), ((N,), (128,))),
    (1, True, 128): (((128,), (1,)), ((N,), (128,))),
    (1, True, 64): (((64,), (1,)), ((N // 2, 2), (128, 64))),
    (1, False, 64): (((16, 4), (1, 32)), ((N,), (128,))),
    (1, True, 32): (((32,), (1,)), ((N // 4, 4), (128, 32))),
}


def offset(layout, number):
    total = 0
    for extent, stride in zip(*layout, strict=True):
        number, digit = divmod(number, extent)
        total += digit * stride
    return total


def size(layout):
    total = 1
    for extent in layout[0]:
        total *= extent
    return total


# A sparse A with M = 128 in two CTAs has the layout of 64 rows in one, by the table of the PTX ISA alone (9.7.16.10.5).
FORMS = [(form, sparse) for form in LAYOUTS for sparse in (False, True)]


@pytest.mark.parametrize(("form", "sparse"), FORMS)
def test_every_element_is_where_the_layouts_have_it(form, sparse):
    cta_group, stationary, m = form
    rows, columns = LAYOUTS[(1, False, 64) if sparse and form == (2, False, 128) else form]
    options = {"cta_group": cta_group, "weight_stationary": stationary, "sparse": sparse}
    cells = set()
    for row, column in itertools.product(range(m), range(N)):
        cta, own = divmod(row, size(rows))
        address = offset(rows, own) + offset(columns, column)
        cell = accumulator_cell(m, N, row, column, **options)
        assert cell == (cta, address % LANES, address // LANES)
        cells.add(cell)
    assert len(cells) == m * N


def test_the_forms_are_those_that_were_looked_at():
    assert {(group, stationary, m) for group, stationary, _, m in ACCUMULATOR_LAYOUTS} == set(LAYOUTS)


@pytest.mark.parametrize(
    ("arguments", "options", "rule"),
    [
        ((128, 64, 128, 0), {}, "fragment.range"),
        ((128, 64, 0, 64), {}, "fragment.range"),
        ((32, 64, 0, 0), {}, "row.axis"),
        ((64, 64, 0, 0), {"cta_group": 2, "sparse": True}, "row.axis"),
    ],
)
def test_what_has_no_place(arguments, options, rule):
    with pytest.raises(nvb.DiagnosticError) as caught:
        accumulator_cell(*arguments, **options)
    assert [one.rule_id for one in caught.value.diagnostics] == [rule]
