"""Pictures of layouts: the numbers in them, read by an XML parser."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from nvbackend import Major, SwizzleMode, f16
from nvbackend.layout import AnyLayout, Layout, gmma_atom, parse, pictures

SVG = "{http://www.w3.org/2000/svg}"


def texts(picture: str, kind: str) -> list[tuple[float, float, str]]:
    """Texts of a kind: y, x, text, in reading order."""
    found = ElementTree.fromstring(picture).iter(f"{SVG}text")
    return sorted(
        (float(each.get("y", "")), float(each.get("x", "")), each.text or "")
        for each in found
        if each.get("class") == kind
    )


@pytest.mark.parametrize(
    ("layout", "rows", "columns"),
    [
        (Layout((4, 8)), 4, 8),
        (Layout((4, 8), (8, 1)), 4, 8),
        (Layout(((2, 2), (2, 4)), ((1, 4), (2, 8))), 4, 8),
        (gmma_atom(Major.K, SwizzleMode.B128, f16), 8, 64),
    ],
    ids=str,
)
def test_a_matrix_stands_as_it_is_indexed(layout: AnyLayout, rows: int, columns: int) -> None:
    picture = layout.svg()
    cells = [int(text) for *_, text in texts(picture, "cell")]
    assert cells == [layout(row, column) for row in range(rows) for column in range(columns)]
    assert [text for *_, text in texts(picture, "title")] == [str(layout)]
    assert [text for *_, text in texts(picture, "row")] == [str(row) for row in range(rows)]
    assert [text for *_, text in texts(picture, "column")] == [str(column) for column in range(columns)]


def test_further_modes_stand_to_the_right() -> None:
    layout = Layout((2, 3, 2))
    cells = [int(text) for *_, text in texts(layout.svg(), "cell")]
    assert cells == [layout(row, column % 3, column // 3) for row in range(2) for column in range(6)]


def test_cells_lie_side_by_side_and_equal_numbers_look_alike() -> None:
    picture = parse("(4,(2,4)):(1,(0,4))").svg()
    boxes = [each for each in ElementTree.fromstring(picture).iter(f"{SVG}rect") if each.get("x") is not None]
    places = {(float(each.get("x", "")), float(each.get("y", ""))) for each in boxes}
    assert len(places) == len(boxes) == 32
    by_place = sorted((float(each.get("y", "")), float(each.get("x", "")), each.get("fill")) for each in boxes)
    numbers = [int(number) for *_, number in texts(picture, "cell")]
    fills = {(number, fill) for number, (*_, fill) in zip(numbers, by_place, strict=True)}
    assert sorted(number for number, _ in fills) == [0, 1, 2, 3, 4, 5, 6, 7, *range(8, 16)]
    assert len({fill for _, fill in fills}) == 8


def test_notebooks_show_the_picture() -> None:
    layout = Layout((2, 2))
    assert layout._repr_svg_() == layout.svg() == Layout((2, 2)).svg()


def test_a_picture_is_printed_in_a_few_characters() -> None:
    picture = pictures.banks(Layout((8, 8)), 16)
    assert repr(picture) == f"<picture of {len(picture.svg)} characters of SVG: save(path) writes it>"
