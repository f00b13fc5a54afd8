"""How many scale factors a row has: asked for in one way of the products of a warp and of tcgen05."""

from __future__ import annotations

from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import e2m1, e4m3, f32, ue4m3, ue8m0

SM_100A, SM_120A = nvb.Target.parse("sm_100a"), nvb.Target.parse("sm_120a")


@pytest.mark.parametrize(
    ("kind", "scale", "factors"), [("mxf8f6f4", ue8m0, 1), ("mxf4", ue8m0, 2), ("mxf4nvf4", ue4m3, 4)]
)
def test_the_number_and_the_qualifier_of_ptx_are_the_same(kind: str, scale: Any, factors: int) -> None:
    (element, k), qualifier = (e4m3, 32) if factors == 1 else (e2m1, 64), f"scale_vec::{factors}X"
    number, spelled = {"scale_vec": factors}, {"scale_vector": qualifier}
    by_number, by_qualifier, by_both = (
        nvb.tcgen05.mma(f"m128n64k{k}", element, element, f32, kind=kind, scale=scale, **given)
        for given in (number, spelled, number | spelled)
    )
    assert by_number == by_qualifier == by_both
    warp = nvb.mma.sync(f"m16n8k{k}", element, element, f32, kind=kind, scale=scale, scale_vec=factors)
    rows = nvb.tcgen05.select(by_number, SM_100A), nvb.mma.select(warp, SM_120A)
    assert all(f".{qualifier}." in f"{row.ptx}." for row in rows)


def _nvfp4(**given: Any) -> Any:
    return nvb.tcgen05.mma("m128n64k64", e2m1, e2m1, f32, kind="mxf4nvf4", scale=ue4m3, **given)


def test_a_number_and_another_qualifier_are_refused() -> None:
    with pytest.raises(nvb.DiagnosticError, match="scale_vec=4 is scale_vec::4X, not block32") as caught:
        _nvfp4(scale_vec=4, scale_vector="block32")
    assert [one.rule_id for one in caught.value.diagnostics] == ["instruction.variant"]


def test_a_number_that_the_kind_does_not_have_is_refused_as_the_qualifier_is() -> None:
    for given in ({"scale_vec": 1}, {"scale_vector": "scale_vec::1X"}):
        with pytest.raises(nvb.DiagnosticError, match="scale vector size") as caught:
            nvb.tcgen05.select(_nvfp4(**given), SM_100A)
        assert "not scale_vec::1X" in caught.value.diagnostics[0].fix
