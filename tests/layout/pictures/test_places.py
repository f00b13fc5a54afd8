"""Where the parts of a picture stand: nothing is cut off, nothing covers another, and labels are beside what they name.

Texts are measured as a viewer draws them: a monospaced glyph is 0.6 em wide, and a line goes from 0.8 em above its
baseline to 0.25 em below.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from xml.etree import ElementTree

import pytest

from nvbackend import Major, SwizzleMode, f16
from nvbackend.layout import Layout, gmma_atom, pictures
from nvbackend.layout.banks.conflicts import bank_conflicts
from nvbackend.layout.drawing.svg import Axis, GridCell, grid

SVG = "{http://www.w3.org/2000/svg}"
FONT = 12

WORDS = GridCell(("one", "another line"), "#ffffff", "a hint")
PICTURES = {
    "a layout": Layout((4, 8), (8, 1)).svg(),
    "one number": Layout(1).svg(),
    "large numbers": Layout((3, 2), (1, 10**9)).svg(),
    "banks": pictures.banks(gmma_atom(Major.K, SwizzleMode.B32, f16), 16).svg,
    "memory": pictures.memory(gmma_atom(Major.K, SwizzleMode.B32, f16), 16).svg,
    "threads": pictures.thread_values(Layout(((4, 8), (2, 2)), ((32, 1), (16, 8))), (16, 8)).svg,
    "a few threads": pictures.thread_values(Layout((2, 2)), (2, 2)).svg,
    "an access": bank_conflicts(Layout(32, 2), 32).svg(),
    "axes with names": grid(
        ("title", "heading"), [[WORDS] * 3] * 2, Axis(("a", "b"), "down"), Axis(tuple("xyz"), "on")
    ),
    "a name downwards": grid(("title",), [[WORDS] * 3], Axis(("a",), "a long name downwards")),
    "a name to the right": grid(("title",), [[WORDS] * 3], None, Axis(("first column", "y", "z"), "a name")),
    "a wide heading": grid(("a title that is wider than the single cell below it" * 2,), [[GridCell(("1",))]]),
    "a legend of many lines": grid(
        ("title",), [[WORDS]], legend=[("#ffffff", f"number {place} of many") for place in range(20)]
    ),
    "a legend of one long line": grid(("title",), [[WORDS]], legend=[("#ffffff", "many words " * 9)]),
    "no cells": grid(("title",), []),
}


@dataclass(frozen=True)
class Box:
    """A rectangle of the picture: a cell, a swatch, or a text of some class."""

    kind: str
    left: float
    top: float
    right: float
    bottom: float
    text: str = ""

    def meets(self, other: Box) -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )

    def holds(self, other: Box) -> bool:
        return (
            self.left <= other.left
            and other.right <= self.right
            and self.top <= other.top
            and other.bottom <= self.bottom
        )


def drawn(picture: str) -> tuple[Box, list[Box]]:
    """The picture itself, and all that is drawn in it."""
    root = ElementTree.fromstring(picture)
    assert root.get("viewBox") == f"0 0 {root.get('width')} {root.get('height')}"
    found = []
    for each in root.iter(f"{SVG}rect"):
        if each.get("x") is not None:
            x, y, width, height = (float(each.get(name, "")) for name in ("x", "y", "width", "height"))
            found.append(Box("box", x, y, x + width, y + height))
    for each in root.iter(f"{SVG}path"):
        x, y, side, down, back = map(
            float,
            re.fullmatch(r"M([\d.]+) ([\d.]+)h([\d.]+)v([\d.]+)h-([\d.]+)z", each.get("d", "")).groups(),  # type: ignore[union-attr]
        )
        assert side == back
        found.append(Box("swatch", x, y, x + side, y + down))
    for each in root.iter(f"{SVG}text"):
        for line in list(each) or [each]:
            x, y, words = float(line.get("x", "")), float(line.get("y", "")), line.text or ""
            width = 0.6 * FONT * len(words)
            left = x if each.get("text-anchor") == "start" else x - width / 2
            found.append(Box(each.get("class", ""), left, y - 0.8 * FONT, left + width, y + 0.25 * FONT, words))
    return Box("picture", 0, 0, float(root.get("width", "")), float(root.get("height", ""))), found


@pytest.mark.parametrize("name", PICTURES)
def test_nothing_is_cut_off_and_nothing_covers_another(name: str) -> None:
    whole, parts = drawn(PICTURES[name])
    for part in parts:
        assert whole.holds(part)
    for one, other in itertools.combinations(parts, 2):
        inside = {one.kind, other.kind} == {"box", "cell"} and (one.holds(other) or other.holds(one))
        assert inside or not one.meets(other), (one, other)
    texts = [part for part in parts if part.kind == "cell"]
    boxes = [part for part in parts if part.kind == "box"]
    assert all(sum(box.holds(text) for box in boxes) == 1 for text in texts)


@pytest.mark.parametrize("name", PICTURES)
def test_labels_are_beside_what_they_name(name: str) -> None:
    """A row's label is to the left of its cells and as high, a column's above its cells."""
    _, parts = drawn(PICTURES[name])
    boxes = [part for part in parts if part.kind == "box"]
    rows, columns = sorted({box.top for box in boxes}), sorted({box.left for box in boxes})
    assert len(boxes) == len(rows) * len(columns)
    of_rows = [part for part in parts if part.kind == "row"]
    of_columns = [part for part in parts if part.kind == "column"]
    assert (len(of_rows), len(of_columns)) == (len(rows), len(columns))
    for label, top in zip(of_rows, rows, strict=True):
        beside = next(box for box in boxes if box.top == top)
        assert label.right <= columns[0]
        assert beside.top < label.top < label.bottom < beside.bottom
        assert abs((label.top + label.bottom - beside.top - beside.bottom) / 2) < 0.25 * FONT
    for label, left in zip(of_columns, columns, strict=True):
        below = next(box for box in boxes if box.left == left)
        assert label.bottom <= rows[0]
        assert abs((label.left + label.right - below.left - below.right) / 2) < 0.01
    for axis in (part for part in parts if part.kind == "axis"):
        assert axis.bottom <= rows[0]


@pytest.mark.parametrize("name", PICTURES)
def test_a_legends_words_follow_their_colour(name: str) -> None:
    _, parts = drawn(PICTURES[name])
    swatches = [part for part in parts if part.kind == "swatch"]
    keys = [part for part in parts if part.kind == "key"]
    assert len(swatches) == len(keys)
    lowest = max((part.bottom for part in parts if part.kind == "box"), default=0)
    for swatch, key in zip(swatches, keys, strict=True):
        assert 0 < key.left - swatch.right < FONT
        assert swatch.top - 2 <= key.top < key.bottom <= swatch.bottom + 2
        assert swatch.top > lowest


@pytest.mark.parametrize("name", PICTURES)
def test_headings_stand_above_all_else_in_their_order(name: str) -> None:
    _, parts = drawn(PICTURES[name])
    headings = [part for part in parts if part.kind in ("title", "heading")]
    assert [part.kind for part in headings] == ["title", *["heading"] * (len(headings) - 1)]
    others = [part.top for part in parts if part not in headings]
    assert [part.top for part in headings] == sorted(part.top for part in headings)
    assert all(headings[-1].bottom <= top for top in others)
