"""Plain text for a terminal: columns and paragraphs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

WIDTH = 100


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines of cells one under another, the first row being their titles; the last column is as long as it is."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)]
        yield "  ".join((*cells, row[-1])).rstrip() + "\n"


def paragraph(text: str, indent: str = "") -> str:
    """`text` broken into lines of at most WIDTH characters; words are left whole."""
    return (
        textwrap.fill(
            " ".join(text.split()),
            WIDTH,
            initial_indent=indent,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        + "\n"
    )


def count(number: int, what: str) -> str:
    """A number of things, in words: `1 row`, `2 rows`."""
    return f"{number} {what}{'' if number == 1 else 's'}"
