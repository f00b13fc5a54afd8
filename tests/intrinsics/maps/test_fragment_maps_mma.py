"""The maps of mma.sync that people are shown, against the formulas of the PTX ISA written down a second time."""

from __future__ import annotations

import itertools

import pytest

from nvbackend.intrinsics.maps.rows import FragmentMap, fragment_maps
from nvbackend.intrinsics.mma import mma
from nvbackend.intrinsics.mma.form import MmaInstruction
from nvbackend.isel.select.mma.request import request_of
from tests.support.mma_formulas import FOUR_MATRICES, LANES, METADATA, A, B, d_formula

ROWS = {row.ptx: row for row in mma.rows()}
SMALL_FLOATS = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")


def width(one: MmaInstruction) -> int:
    """Bits of an element in a register: the small floats are in bytes, but for the packed kinds."""
    if one.a.name in SMALL_FLOATS:
        return 4 if one.kind in ("mxf4", "mxf4nvf4") else 8
    return one.a.bits


def positions(held: FragmentMap) -> dict[tuple[int, int], tuple[int, ...]]:
    return {(lane, index): held.position(lane, index) for lane in LANES for index in range(held.elements)}


@pytest.mark.parametrize("ptx", sorted(ROWS)[::3])
def test_every_operand_is_where_the_formulas_have_it(ptx: str) -> None:
    one = request_of(ROWS[ptx]).instruction
    maps = {held.operand: held for held in fragment_maps(ROWS[ptx])}
    m, n, k = one.shape
    if one.shape == (8, 8, 4) and one.a.name == "f16":
        names = {"a": f"A {one.a_layout}", "b": f"B {one.b_layout}", "c": f"D {one.c}", "d": f"D {one.d}"}
        expected = {name: FOUR_MATRICES[table] for name, table in names.items()}
        for name, (count, formula) in expected.items():
            assert maps[name].elements == count
            assert positions(maps[name]) == {
                (lane, i): formula(lane, i) for lane, i in itertools.product(LANES, range(count))
            }
        return
    stored = (m, n, k // 2) if one.sparsity else one.shape
    held = {
        "a": A[stored, width(one)],
        "b": B[one.shape, width(one)],
        "c": (m // 4, d_formula),
        "d": (m // 4, d_formula),
    }
    if one.sparsity:
        threads, chunk = METADATA[width(one), k]
        held["metadata"] = (8, lambda g, t, i: chunk(g, t % threads, i))
    scales = {"scale_a", "scale_b"} if one.scale is not None else set()  # test_fragments_matrix has their places
    assert set(maps) == {*held, *scales}
    for name, (count, formula) in held.items():
        assert positions(maps[name]) == {
            (lane, i): formula(lane >> 2, lane % 4, i) for lane, i in itertools.product(LANES, range(count))
        }
