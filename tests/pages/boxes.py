"""Drawings of boxes, arrows and words as SVG. Lengths are pixels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

LINE, FONT, CHARACTER = 16, 12, 7.5
"""The height of a line, the size of the letters, the width of a letter."""
PADDING = 8
Point = tuple[float, float]


def width_of(lines: Iterable[str]) -> float:
    """The width of a box around `lines`."""
    return max(map(len, lines), default=0) * CHARACTER + 2 * PADDING


@dataclass(frozen=True)
class Box:
    """Lines of text in a frame, around its middle, under a bold title."""

    x: float
    y: float
    width: float
    height: float
    title: str
    lines: tuple[str, ...] = ()
    fill: str = "#ffffff"

    @property
    def top(self) -> Point:
        return self.x + self.width / 2, self.y

    @property
    def bottom(self) -> Point:
        return self.x + self.width / 2, self.y + self.height

    @property
    def left(self) -> Point:
        return self.x, self.y + self.height / 2

    @property
    def right(self) -> Point:
        return self.x + self.width, self.y + self.height / 2

    def svg(self) -> str:
        """The frame and its text."""
        parts = [
            (
                f'<rect x="{self.x:g}" y="{self.y:g}" width="{self.width:g}" height="{self.height:g}" rx="3" '
                f'fill="{self.fill}" stroke="#666"/>'
            )
        ]
        first = self.y + self.height / 2 - LINE * len(self.lines) / 2 + FONT / 3
        for place, line in enumerate((self.title, *self.lines)):
            weight = "" if place else ' font-weight="bold"'
            parts.append(_text(line, self.x + self.width / 2, first + LINE * place, weight))
        return "\n".join(parts)


@dataclass(frozen=True)
class Words:
    """A line of text; `anchor` is start, middle or end."""

    x: float
    y: float
    text: str
    anchor: str = "start"
    bold: bool = False

    def svg(self) -> str:
        """The text."""
        weight = ' font-weight="bold"' if self.bold else ""
        return _text(self.text, self.x, self.y, f' text-anchor="{self.anchor}"{weight}')


@dataclass(frozen=True)
class Arrow:
    """A line through `points` that ends in an arrow."""

    points: Sequence[Point]
    colour: str = "#444"

    def svg(self) -> str:
        """The line."""
        path = " ".join(f"{x:g},{y:g}" for x, y in self.points)
        return f'<polyline points="{path}" fill="none" stroke="{self.colour}" marker-end="url(#arrow)"/>'


@dataclass
class Drawing:
    """What is drawn, in this order, on a sheet of this size."""

    width: float
    height: float
    shapes: list[Box | Words | Arrow] = field(default_factory=list)

    def svg(self) -> str:
        """The SVG document."""
        size = f'width="{self.width:g}" height="{self.height:g}" viewBox="0 0 {self.width:g} {self.height:g}"'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size}',
                f'  font-family="monospace" font-size="{FONT}" text-anchor="middle">',
                (
                    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
                    'orient="auto"><path d="M0 0L8 4L0 8z" fill="#444"/></marker></defs>'
                ),
                f'<rect width="{self.width:g}" height="{self.height:g}" fill="white"/>',
                *(shape.svg() for shape in self.shapes),
                "</svg>",
                "",
            ]
        )


def _text(text: str, x: float, y: float, attributes: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}"{attributes}>{escape(text)}</text>'
