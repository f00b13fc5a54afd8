"""Tables of text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

_GAP = "  "


class Column(NamedTuple):
    """A heading, and `<` or `>`: which side its texts begin at."""

    heading: str
    side: str


def table(columns: Sequence[Column], rows: Iterable[Sequence[str]], indent: str = "  ") -> str:
    """The rows under the headings, each column as wide as its longest text."""
    every = [tuple(one.heading for one in columns), *rows]
    widths = [max(map(len, texts)) for texts in zip(*every, strict=True)]
    return "\n".join(
        (
            indent
            + _GAP.join(f"{one:{column.side}{width}}" for one, column, width in zip(row, columns, widths, strict=True))
        ).rstrip()
        for row in every
    )


def number(value: int) -> str:
    """With a comma every three digits; nothing for 0."""
    return f"{value:,}" if value else ""


def amount(count: int) -> str:
    """Bytes, in the unit that leaves few digits; nothing for 0."""
    size, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 10240 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:,.0f} {units[0]}" if count else ""
