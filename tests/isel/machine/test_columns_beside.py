"""The columns of tensor memory that a product's operands must have apart, against the maps of their cells."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest

import nvbackend as nvb
from nvbackend import e2m1, f16, f32, ue4m3
from nvbackend.intrinsics.maps import tcgen05 as cells
from nvbackend.isel.machine.tensor_memory_uses import columns_beside
from nvbackend.isel.select.tcgen05 import select


def found(request: nvb.Tcgen05Request) -> dict[str, int]:
    assert request.descriptor is not None
    return columns_beside(select.row_of(request), request.descriptor)


def columns(places: Iterable[tuple[int, int, int]], which: int) -> int:
    return 1 + max(place[which] for place in places)


def columns_of_d(m: int, n: int, group: int) -> int:
    places = itertools.product(range(m), range(n))
    return columns((cells.accumulator_cell(m, n, *place, cta_group=group) for place in places), 2)


@pytest.mark.parametrize(("m", "n", "group"), [(128, 64, 1), (128, 48, 1), (256, 128, 2), (128, 128, 2)])
def test_factors(m: int, n: int, group: int) -> None:
    scale = {"kind": "mxf4nvf4", "scale": ue4m3, "scale_vector": "scale_vec::4X"}
    request = nvb.tcgen05.mma(f"m{m}n{n}k64", e2m1, e2m1, f32, cta_group=group, **scale)  # type: ignore[arg-type]
    split = m == 64 * group
    assert found(request) == {
        "d": columns_of_d(m, n, group),
        "scale_a": columns((cells.scale_a_cell(row, 0) for row in range(m // group)), 1),
        "scale_b": columns((cells.scale_b_cell(n, column, 0, split=split) for column in range(n)), 1),
    }


@pytest.mark.parametrize(("m", "group"), [(128, 1), (256, 2)])
def test_rows_of_a(m: int, group: int) -> None:
    request = nvb.tcgen05.mma(f"m{m}n64k16", f16, f16, f32, cta_group=group, a_in_tmem=True)
    assert found(request) == {"d": columns_of_d(m, 64, group), "a": 16 * f16.bits // 32}


@pytest.mark.parametrize(("m", "stays"), [(64, False), (128, True)])
def test_products_whose_lanes_are_others_have_none(m: int, stays: bool) -> None:
    request = nvb.tcgen05.mma(f"m{m}n64k16", f16, f16, f32, a_in_tmem=True, weight_stationary=stays)
    assert found(request) == {}
