"""Tables and paragraphs of plain text, against their words and widths counted here."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from nvbackend.cli.build import _beside
from nvbackend.cli.text import WIDTH, columns, count, paragraph
from nvbackend.codegen.looking.listings import ListedLine

LONG = st.integers(0, WIDTH * 2 // 3)
WORD = st.builds(lambda start, end: f"{'a' * start}-{'b' * end}", LONG, LONG)
CELL = st.text("ab", max_size=6)
WIDTHS = st.integers(1, 4)


def lines_of(words: list[str], indent: str) -> list[str]:
    """Each line takes as many words as it has room for, and one in any case."""
    lines: list[str] = []
    for word in words:
        if lines and len(f"{lines[-1]} {word}") <= WIDTH:
            lines[-1] += f" {word}"
        else:
            lines.append(indent + word)
    return lines


@settings(max_examples=100)
@given(st.lists(WORD, max_size=12), st.sampled_from(["", "  "]))
def test_words_of_a_paragraph_are_left_whole(words: list[str], indent: str) -> None:
    said = paragraph("\n ".join(words), indent)
    assert said.endswith("\n")
    assert said.splitlines() == (lines_of(words, indent) or [""])


@settings(max_examples=100)
@given(WIDTHS.flatmap(lambda width: st.lists(st.lists(CELL, min_size=width, max_size=width), min_size=1, max_size=5)))
def test_cells_begin_one_below_another(rows: list[list[str]]) -> None:
    begins = [0]
    for place in range(len(rows[0]) - 1):
        begins.append(begins[-1] + max(len(row[place]) for row in rows) + 2)
    expected = []
    for row in rows:
        line = [" "] * (begins[-1] + 6)
        for begin, cell in zip(begins, row, strict=True):
            line[begin : begin + len(cell)] = cell
        expected.append("".join(line).rstrip() + "\n")
    assert list(columns(rows)) == expected


def test_one_thing_and_several() -> None:
    assert [count(number, "row") for number in range(3)] == ["0 rows", "1 row", "2 rows"]


@given(st.lists(st.one_of(st.none(), st.integers(1, 2000)), max_size=6))
def test_lines_of_a_listing_begin_below_one_another(numbers: list[int | None]) -> None:
    """After their numbers, as wide as the longest; where none has one, after a blank."""
    lines = [ListedLine("text", None if number is None else ("a.py", number)) for number in numbers]
    width = max([1, *(len(str(number)) for number in numbers if number is not None)])
    shown = [line for line in "".join(_beside(lines, colors=False)).splitlines() if "#" not in line]
    assert shown == [f"{'' if number is None else number:>{width}} text" for number in numbers]
