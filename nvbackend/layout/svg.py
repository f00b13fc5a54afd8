"""Pictures of tables as SVG: what `Layout.svg` draws."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

SHADES = ("#ffffff", "#d5e8f7", "#fde5c8", "#d9efd3", "#f7d6d6", "#e5dbf0", "#f4f1c5", "#d3ecea")
"""Fill colours, light enough for black text; a cell's number modulo their count chooses one."""
_HEIGHT, _MARGIN, _FONT = 22, 6, 12
_DIGIT = 8
"""The width of a character, in pixels as all lengths here."""


def table(title: str, rows: Sequence[Sequence[int]]) -> str:
    """An SVG document: a title, and a table of numbers with row and column numbers, shaded by the numbers modulo 8."""
    digits = max((len(str(number)) for row in rows for number in row), default=1)
    columns = len(rows[0]) if rows else 0
    width = max(_DIGIT * max(digits, len(str(columns))) + 2 * _MARGIN, _HEIGHT)
    left, top = _DIGIT * len(str(len(rows))) + 2 * _MARGIN, 2 * _HEIGHT
    whole = (
        max(left + columns * width + _MARGIN, _DIGIT * len(title) + 2 * _MARGIN),
        top + len(rows) * _HEIGHT + _MARGIN,
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole[0]}" height="{whole[1]}"',
        f'  viewBox="0 0 {whole[0]} {whole[1]}" font-family="monospace" font-size="{_FONT}" text-anchor="middle">',
        f'<rect width="{whole[0]}" height="{whole[1]}" fill="white"/>',
        f'<text class="title" x="{_MARGIN}" y="{_HEIGHT - _MARGIN}" text-anchor="start">{escape(title)}</text>',
    ]
    parts += [_text("column", each, left + each * width + width / 2, top - _MARGIN) for each in range(columns)]
    for row, numbers in enumerate(rows):
        y = top + row * _HEIGHT
        parts.append(_text("row", row, left / 2, y + _HEIGHT - _MARGIN))
        for column, number in enumerate(numbers):
            x = left + column * width
            shade = SHADES[number % len(SHADES)]
            parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{_HEIGHT}" fill="{shade}" stroke="gray"/>')
            parts.append(_text("cell", number, x + width / 2, y + _HEIGHT - _MARGIN))
    return "\n".join([*parts, "</svg>", ""])


def _text(kind: str, number: int, x: float, y: float) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{number}</text>'
