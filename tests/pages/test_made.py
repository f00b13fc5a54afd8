"""What the pages show that is made of the code is up to date, true and legible."""

from __future__ import annotations

from itertools import combinations
from xml.etree import ElementTree

import pytest

from benchmarks.pictures import PICTURES as FIGURES
from tests.pages import layers
from tests.pages.boxes import CHARACTER, LINE, Arrow, Box, Drawing, Words
from tests.pages.made import DRAWINGS, PICTURES, made
from tests.support.process import ROOT

AGAIN = "python -m tests.pages"


def test_what_is_made_is_up_to_date() -> None:
    stale = [path.name for path, text in made().items() if not path.exists() or path.read_text("utf-8") != text]
    assert stale == [], f"{AGAIN} makes them again"


def test_every_picture_is_made_and_shown() -> None:
    kept = {path.name for path in (ROOT / "docs" / "pictures").iterdir()}
    assert kept == {*PICTURES, *(f"{name}.svg" for name in FIGURES)}
    pages = "".join(path.read_text("utf-8") for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
    assert [name for name in kept if f"pictures/{name})" not in pages] == []


def test_pictures_are_svg() -> None:
    for name, draw in PICTURES.items():
        assert ElementTree.fromstring(draw()).tag == "{http://www.w3.org/2000/svg}svg", name


def test_the_wall_is_the_imports() -> None:
    assert set(layers.BRICKS) == set(layers.layers())
    assert {name: layers.below(name) | layers.BESIDE.get(name, set()) for name in layers.BRICKS} == {
        name: layers.nearest(name) for name in layers.BRICKS
    }
    assert {
        name: others & layers.below(name) for name, others in layers.BESIDE.items() if others & layers.below(name)
    } == {}


Extent = tuple[float, float, float, float]


def _extents(drawing: Drawing) -> list[tuple[str, Extent]]:
    """Left, top, right and bottom of each frame and of each line of words outside of frames."""
    found: list[tuple[str, Extent]] = []
    for shape in drawing.shapes:
        if isinstance(shape, Box):
            found.append((shape.title, (shape.x, shape.y, shape.x + shape.width, shape.y + shape.height)))
        elif isinstance(shape, Words):
            wide = len(shape.text) * CHARACTER
            left = shape.x - {"start": 0.0, "middle": wide / 2, "end": wide}[shape.anchor]
            found.append((shape.text, (left, shape.y - LINE + 4, left + wide, shape.y + 4)))
    return found


def _meet(one: Extent, other: Extent) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


@pytest.mark.parametrize("name", DRAWINGS)
def test_nothing_is_drawn_over_anything(name: str) -> None:
    drawing = DRAWINGS[name]()
    extents = _extents(drawing)
    assert [(one[0], other[0]) for one, other in combinations(extents, 2) if _meet(one[1], other[1])] == []
    outside = [what for what, (x, y, right, bottom) in extents if not (x >= 0 and right <= drawing.width and y >= 0)]
    assert outside == []
    assert max(bottom for _, (_, _, _, bottom) in extents) <= drawing.height


@pytest.mark.parametrize("name", DRAWINGS)
def test_words_fit_their_frames(name: str) -> None:
    boxes = [shape for shape in DRAWINGS[name]().shapes if isinstance(shape, Box)]
    wide = [box.title for box in boxes if max(map(len, (box.title, *box.lines))) * CHARACTER > box.width]
    tall = [box.title for box in boxes if LINE * (1 + len(box.lines)) > box.height]
    assert (wide, tall) == ([], [])


def test_the_check_sees_what_meets() -> None:
    box = Box(0, 0, 50, 20, "one")
    drawing = Drawing(100, 50, [box, Words(40, 15, "two"), Arrow([(0, 0), (9, 9)])])
    (_, first), (_, second) = _extents(drawing)
    assert _meet(first, second)
    assert not _meet(first, (51, 0, 60, 20))
