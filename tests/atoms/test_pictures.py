"""Pictures of atoms: what stands in the cells, read by an XML parser."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from nvbackend import DiagnosticError
from nvbackend.atoms import atom
from nvbackend.intrinsics.row.types import f16
from nvbackend.layout import Layout
from nvbackend.tiled import make_tiled_copy, make_tiled_mma, universal_copy

SVG = "{http://www.w3.org/2000/svg}"
DENSE = "SM80_16x8x16_F32F16F16F32_TN"
SPARSE = "SM80_SPARSE_16x8x32_F32F16F16F32_TN"
SCALED = "SM120_16x8x64_TN_VS<float_e2m1_t, float_e2m1_t, float, float_ue4m3_t, 16>"
PAIR = "SM100_MMA_F16BF16_2x1SM_SS<half_t, half_t, float, 128, 16, Major::K, Major::K>"


def cells(picture: str) -> dict[tuple[int, int], str]:
    """The words of each cell, by row and column."""
    found = []
    for each in ElementTree.fromstring(picture).iter(f"{SVG}text"):
        if each.get("class") == "cell":
            spans = list(each) or [each]
            place = float(spans[0].get("y", "")), float(spans[0].get("x", ""))
            found.append((place, " ".join(span.text or "" for span in spans)))
    rows, columns = (sorted({place[axis] for place, _ in found}) for axis in (0, 1))
    return {(rows.index(place[0]), columns.index(place[1])): words for place, words in found}


def texts(picture: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(picture).iter(f"{SVG}text")]


def test_operands_of_an_atom() -> None:
    """PTX ISA 9.7.14.5.8: a2 is in row groupID + 8; b2 of thread 0 in row 8 of B, N x K here."""
    one = atom(DENSE)
    assert one._repr_svg_() == one.picture("c").svg
    a, b = cells(one.picture("A").svg), cells(one.picture("B").svg)
    assert (len(a), len(b)) == (16 * 16, 8 * 16)
    assert (a[8, 0], a[0, 8], a[9, 3]) == ("T0 V2", "T0 V4", "T5 V3")
    assert (b[0, 8], b[3, 0]) == ("T0 V2", "T12 V0")
    assert cells(one.picture("C", group=32).svg)[8, 1] == "W0 T0 V3"


def test_metadata_and_scale_factors() -> None:
    """Two threads have the metadata of each element, four the factor of a column of B."""
    e = cells(atom(SPARSE).picture("E").svg)
    assert (e[0, 0], e[8, 15], e[3, 16]) == ("T0 V0 T2 V0", "T0 V31 T2 V31", "T13 V0 T15 V0")
    sfa, sfb = (cells(atom(SCALED).picture(name).svg) for name in ("SFA", "SFB"))
    assert (sfa[8, 5], sfb[1, 0]) == ("T1 V5 T3 V5", "T4 V0 T5 V0 +2")
    with pytest.raises(DiagnosticError, match=r"atom\.operand") as caught:
        atom(DENSE).picture("E")
    assert caught.value.diagnostics[0].fix == "draw one of A, B, C, D"


def test_ctas_are_no_threads() -> None:
    one, tiled = atom(PAIR).picture(), make_tiled_mma(PAIR)
    found = cells(one.svg)
    assert (found[0, 0], found[64, 0]) == ("C0 V0", "C1 V0")
    assert "C CTA, V its value" in texts(one.svg)
    assert cells(tiled._repr_svg_()) == cells(tiled.picture(group=32).svg) == found


def test_the_legend_has_the_colours_that_there_are() -> None:
    """Two warps have the same rows of B: the cell has the colour of the first."""
    shown = texts(make_tiled_mma(DENSE, (2, 2, 1)).picture("B", group=32).svg)
    assert [text for text in shown if text in ("W0", "W1", "W2", "W3")] == ["W0", "W2"]


def test_a_tiled_copy() -> None:
    copy = make_tiled_copy(universal_copy(f16, 128), Layout((8, 8), (8, 1)), Layout((1, 8)))
    found = cells(copy.picture().svg)
    assert (found[0, 7], found[0, 8], found[1, 0]) == ("T0 V7", "T1 V0", "T8 V0")
    assert cells(copy._repr_svg_())[7, 63] == "W1 T31 V7"
    of_a_warp = make_tiled_copy(copy.atom, Layout((4, 8), (8, 1)), Layout((1, 8)))
    assert of_a_warp._repr_svg_() == of_a_warp.picture().svg  # of one warp no thread needs the number of its warp
    assert cells(copy.picture(source=True).svg) == found
