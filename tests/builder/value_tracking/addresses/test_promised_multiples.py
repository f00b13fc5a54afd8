"""What `multiple_of` of a parameter says of addresses: vectors that need it, and offsets that break it."""

from __future__ import annotations

import math

import pytest

import nvbackend as nvb
from nvbackend import f32, i32
from nvbackend.layout import Layout


def builder(**promised):
    parameters = [nvb.Parameter("x", nvb.Pointer(f32)), nvb.Parameter("n", nvb.Scalar(i32, **promised))]
    return nvb.KernelBuilder("k", "sm_80", threads=32, parameters=parameters)


@pytest.mark.parametrize("multiple", [1, 2, 3, 4, 6, 8])
@pytest.mark.parametrize("factor", [1, 2, 3])
def test_an_address_is_as_aligned_as_its_arithmetic_shows(multiple, factor) -> None:
    k = builder(multiple_of=multiple)
    x, n = k.arguments
    step = multiple * factor * 4
    assert (x + n * factor).align == min(16, step & -step)
    assert (x + (n * factor + 1)).align == 4
    assert (x + n.to(nvb.i64) * factor).align == min(16, step & -step)


@pytest.mark.parametrize(("multiple", "allowed"), [(4, True), (8, True), (2, False), (1, False)])
def test_a_vector_may_be_loaded_from_a_row(multiple, allowed) -> None:
    k = builder(multiple_of=multiple)
    x, n = k.arguments
    row = k.tensor(x, Layout((64, 64), (n, 1))).at(k.thread_id(), 0)
    assert row.align == min(16, math.gcd(16, multiple * 4))
    if allowed:
        row.load(4)
        k.finish()
    else:
        with pytest.raises(nvb.DiagnosticError, match="align"):
            row.load(4)


def test_addresses_compare_as_numbers_do() -> None:
    k = builder()
    x, n = k.arguments
    s = k.shared(f32, 8)
    for predicate in (x == 0, x != 0, x + n == x, s + 4 == s, s != 0):
        assert isinstance(predicate, nvb.Value)
        assert predicate.type is nvb.pred
        with pytest.raises(nvb.DiagnosticError, match="truth"):
            bool(predicate)
    for other in (s, None, 1.0, True):
        with pytest.raises(nvb.DiagnosticError) as caught:
            x == other  # noqa: B015
        assert caught.value.diagnostics[0].rule_id == "value.type"
    with k.if_(x == 0):
        k.return_()
    x[n] = 1.0
    assert "setp" in k.compile(assemble=False).ptx
