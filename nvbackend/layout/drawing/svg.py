"""Pictures of grids as SVG: what `Layout.svg` and the other pictures of layouts are drawn with. Lengths are pixels."""

from __future__ import annotations

import colorsys
import functools
from collections.abc import Sequence
from html import escape
from pathlib import Path

from nvbackend.diagnostics import Rule
from nvbackend.diagnostics.classes.dataclass import dataclass

SHADES = ("#ffffff", "#d5e8f7", "#fde5c8", "#d9efd3", "#f7d6d6", "#e5dbf0", "#f4f1c5", "#d3ecea")
"""Fill colours, light enough for black text; a cell's number modulo their count chooses one."""
HUES = (355, 28, 52, 95, 165, 200, 245, 305)
"""Degrees on the colour wheel that are easy to distinguish: one for each group of a palette."""
GROUP = 4
"""Colours of one hue, from light to dark: the threads of a quad, or the banks that 16 bytes lie in."""
_LIGHTEST, _DARKER, _SATURATION = 0.92, 0.065, 0.75
_LINE, _MARGIN, _FONT, _SWATCH = 14, 6, 12, 12
_DIGIT = 7.5
"""The width of a character."""
_HEADING = 20


@dataclass(frozen=True, slots=True)
class Picture:
    """An SVG document, which a notebook shows."""

    svg: str

    def __repr__(self) -> str:
        return f"<picture of {len(self.svg)} characters of SVG: save(path) writes it>"

    def save(self, path: str | Path) -> None:
        """Write the document to a file."""
        Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self.svg


@dataclass(frozen=True, slots=True)
class GridCell:
    """A cell of a grid: lines of text, its colour, and what a viewer shows where the mouse points at it."""

    lines: tuple[str, ...] = ()
    fill: str = "#ffffff"
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Axis:
    """The text along a side of a grid: the name of what is counted, and a label for each row or column."""

    labels: tuple[str, ...]
    name: str = ""


SIZE = Rule(
    id="picture.size",
    message="a picture of {rows} x {columns} cells: it would have more than {most}",
    fix="draw a part of it: a tile, or fewer modes",
    why="A document of that size takes minutes to make, and no viewer shows it.",
    reference="measured: about 300 bytes a cell",
)
MOST_CELLS = 1 << 17
"""Cells that a picture can have: four times as many as the largest accumulator."""


def check_size(rows: int, columns: int) -> None:
    """Raises picture.size where so many rows and columns are too many."""
    if rows * columns > MOST_CELLS:
        SIZE.fail(rows=rows, columns=columns, most=MOST_CELLS)


@functools.cache
def palette() -> tuple[str, ...]:
    """32 fill colours, light enough for black text: eight hues in four shades each, the shades of a hue together."""
    return tuple(_colour(hue, _LIGHTEST - _DARKER * shade) for hue in HUES for shade in range(GROUP))


def _colour(hue: int, lightness: float) -> str:
    parts = colorsys.hls_to_rgb(hue / 360, lightness, _SATURATION)
    return "#" + "".join(f"{round(255 * part):02x}" for part in parts)


def table(title: str, rows: Sequence[Sequence[int]]) -> str:
    """An SVG document: a title, and a table of numbers with row and column numbers, shaded by the numbers modulo 8."""
    cells = [[GridCell((str(number),), SHADES[number % len(SHADES)]) for number in row] for row in rows]
    return grid((title,), cells)


def numbered(count: int, name: str = "") -> Axis:
    """An axis whose labels count from 0."""
    return Axis(tuple(map(str, range(count))), name)


def grid(
    headings: Sequence[str],
    cells: Sequence[Sequence[GridCell]],
    down: Axis | None = None,
    across: Axis | None = None,
    legend: Sequence[tuple[str, str]] = (),
) -> str:
    """An SVG document: a title and further headings, the cells between two axes, and a legend of (fill, text).

    Rows have equally many cells. Without axes, rows and columns are numbered.
    """
    check_size(len(cells), len(cells[0]) if cells else 0)
    down = down or numbered(len(cells))
    across = across or numbered(len(cells[0]) if cells else 0)
    lines = max((len(cell.lines) for row in cells for cell in row), default=1) or 1
    longest = max((len(line) for row in cells for cell in row for line in cell.lines), default=1)
    height = _LINE * lines + 8
    width = max(_wide(max(longest, *map(len, across.labels), 1)) + 2 * _MARGIN, height if lines == 1 else 0)
    left = _wide(max((len(label) for label in (*down.labels, down.name)), default=0)) + 2 * _MARGIN
    top = _HEADING * len(headings) + _LINE * (2 if across.name else 1) + 2 * _MARGIN
    right, bottom = left + len(across.labels) * width, top + len(cells) * height
    shown, least, end = _legend(legend, bottom + 2 * _MARGIN, max(right, 400))
    whole = round(max(right, least, *map(_wide, map(len, headings))) + 2 * _MARGIN), round(end + _MARGIN)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole[0]}" height="{whole[1]}"',
        f'  viewBox="0 0 {whole[0]} {whole[1]}" font-family="monospace" font-size="{_FONT}" text-anchor="middle">',
        f'<rect width="{whole[0]}" height="{whole[1]}" fill="white"/>',
        *_headings(headings),
        *_axes(down, across, (left, top), (width, height)),
        '<g stroke="#8a8a8a" stroke-width="0.7">',
    ]
    places = [
        (cell, left + column * width, top + row * height)
        for row, line in enumerate(cells)
        for column, cell in enumerate(line)
    ]
    parts += [_box(cell, x, y, width, height) for cell, x, y in places]
    parts.append("</g>")
    parts += [_words(cell, x + width / 2, y + height / 2) for cell, x, y in places if cell.lines]
    return "\n".join([*parts, *shown, "</svg>", ""])


def _wide(characters: int) -> float:
    return _DIGIT * characters


def _headings(headings: Sequence[str]) -> list[str]:
    """The first is the title, larger than the others."""
    kinds = ("title", *("heading",) * len(headings))
    weights = (' font-weight="bold"', *("",) * len(headings))
    return [
        f'<text class="{kind}" x="{_MARGIN}" y="{_HEADING * (place + 1) - _MARGIN}" text-anchor="start"{weight}>'
        f"{escape(heading, quote=False)}</text>"
        for place, (heading, kind, weight) in enumerate(zip(headings, kinds, weights, strict=False))
    ]


def _axes(down: Axis, across: Axis, origin: tuple[float, float], step: tuple[float, float]) -> list[str]:
    """The labels of rows and columns, and above them what they count."""
    (left, top), (width, height) = origin, step
    baseline = top - _MARGIN
    parts = []
    if across.name:
        parts.append(_text("axis", across.name, left, baseline - _LINE, anchor="start"))
    if down.name:
        parts.append(_text("axis", down.name, left / 2, baseline))
    parts += [
        _text("column", label, left + (place + 0.5) * width, baseline) for place, label in enumerate(across.labels)
    ]
    parts += [
        _text("row", label, left / 2, top + (place + 0.5) * height + _FONT / 3)
        for place, label in enumerate(down.labels)
    ]
    return parts


def _text(kind: str, text: str, x: float, y: float, *, anchor: str = "") -> str:
    start = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" fill="#444"{start}>{escape(text, quote=False)}</text>'


def _box(cell: GridCell, x: float, y: float, width: float, height: float) -> str:
    place = f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{cell.fill}"'
    return f"{place}><title>{escape(cell.hint, quote=False)}</title></rect>" if cell.hint else f"{place}/>"


def _words(cell: GridCell, x: float, middle: float) -> str:
    first = middle - _LINE * (len(cell.lines) - 1) / 2 + _FONT / 3
    if len(cell.lines) == 1:
        return f'<text class="cell" x="{x:g}" y="{first:g}">{escape(cell.lines[0], quote=False)}</text>'
    spans = "".join(
        f'<tspan x="{x:g}" y="{first + _LINE * place:g}">{escape(line, quote=False)}</tspan>'
        for place, line in enumerate(cell.lines)
    )
    return f'<text class="cell">{spans}</text>'


def _legend(entries: Sequence[tuple[str, str]], top: float, right: float) -> tuple[list[str], float, float]:
    """The legend's parts, in lines that end before `right` where they can, how wide it is, and where it ends."""
    parts, x, y, widest = [], float(_MARGIN), top, 0.0
    for fill, words in entries:
        length = _SWATCH + _MARGIN + _wide(len(words)) + 2 * _MARGIN
        if x > _MARGIN and x + length > right:
            x, y = float(_MARGIN), y + _HEADING
        parts.append(f'<g class="legend"><path d="M{x:g} {y:g}h{_SWATCH}v{_SWATCH}h-{_SWATCH}z" fill="{fill}"')
        parts.append(f'  stroke="gray"/>{_text("key", words, x + _SWATCH + _MARGIN, y + 10, anchor="start")}</g>')
        x += length
        widest = max(widest, x)
    return parts, widest, y + _HEADING if entries else top - _MARGIN
