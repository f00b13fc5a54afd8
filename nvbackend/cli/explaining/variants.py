"""All rows of one spelling as one page: what they share once, and a table of what differs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from nvbackend.cli.explaining import row as page
from nvbackend.cli.text import columns, paragraph
from nvbackend.intrinsics.maps.rows import fragment_maps
from nvbackend.intrinsics.row.row import Intrinsic, Row
from nvbackend.isel.target.target import Target

T = TypeVar("T")


def explained(rows: Sequence[Row], target: Target | None) -> Iterator[str]:
    """The page of rows of one spelling; variants are numbered from 1. Another family has a page of its own."""
    for place, (_, alike) in enumerate(itertools.groupby(rows, lambda row: (row.family, row.section))):
        yield "\n" if place else ""
        yield from _page(list(alike), target)


def _page(rows: Sequence[Row], target: Target | None) -> Iterator[str]:
    first = rows[0]
    yield f"{first.ptx}\n"
    yield paragraph(f"{first.family}; PTX ISA {first.section}" if first.section else first.family, "  ")
    if len(rows) > 1:
        yield f"\n{len(rows)} variants\n"
        yield from columns(list(_table(rows)))
    yield from _sentences(rows, target)
    operands = _merged((page.operand_cells(operand) for operand in row.operands) for row in rows)
    if operands:
        yield "\nOperands\n"
        titles = ("  name", "role", "registers", "meaning")
        listed = [(titles, ["in"]), *((cells, _spans(numbers, rows)) for cells, numbers in operands)]
        yield from columns([(*cells[:-1], *which, cells[-1]) if len(rows) > 1 else cells for cells, which in listed])
    said = _merged(
        ((f"  {name.replace('_', ' ')}", page.words(value)) for name, value in row.semantics.said()) for row in rows
    )
    if said:
        yield "\nTo the analyses\n"
        lines = ((name, *_spans(numbers, rows), value) for (name, value), numbers in said)
        yield from columns([line if len(rows) > 1 else (line[0], line[-1]) for line in lines])
    yield from _held(rows)


def _sentences(rows: Sequence[Row], target: Target | None) -> Iterator[str]:
    """What it does, what it needs, how it is emitted, and whether the target has it."""
    said: list[Callable[[Row], str]] = [lambda row: " ".join((row.summary, *page.does(row)))]
    said.append(page.needs if len(rows) > 1 else lambda row: f"{page.needs(row)} {page.through(row)}")
    if target is not None:
        said.append(lambda row: page.on_target(row, target))
    for each in said:
        yield "\n"
        for text, numbers in _merged([each(row)] for row in rows):
            yield paragraph(f"{_which(numbers, rows)}{text}")


def _held(rows: Sequence[Row]) -> Iterator[str]:
    """Which thread or cell holds what, each map once."""
    fragments = (["".join(page.told_fragment(held)) for held in fragment_maps(row)] for row in rows)
    yield from (f"\n{_which(numbers, rows)}{text}" for text, numbers in _merged(fragments))
    cells = (["".join(page.told_cells(row)).strip("\n")] for row in rows)
    yield from (f"\n{_which(numbers, rows)}{text}\n" for text, numbers in _merged(cells) if text)


def _table(rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    """A line for each row: the axes in which they differ, the operands, and how each is emitted."""
    axes = [axis for axis in rows[0].axes if len({str(row.axes.get(axis)) for row in rows}) > 1]
    shared = {operand.name for operand in rows[0].operands if all(row.has_operand(operand.name) for row in rows)}
    yield ("  ", *(axis.replace("_", " ") for axis in axes), "operands of its own", "emitted as")
    for number, row in enumerate(rows, 1):
        values = ("-" if row.axes.get(axis) in (None, False) else page.words(row.axes[axis]) for axis in axes)
        emitted = row.lowering.name if isinstance(row.lowering, Intrinsic) else "inline asm"
        own = ", ".join(operand.name for operand in row.operands if operand.name not in shared)
        yield (f"  {number}", *values, own or "-", emitted)


def _merged(of_rows: Iterable[Iterable[T]]) -> list[tuple[T, list[int]]]:
    """Everything that is said of a row, once, with the numbers of the rows that it is said of."""
    places: dict[T, list[int]] = {}
    for number, of_row in enumerate(of_rows, 1):
        for each in of_row:
            places.setdefault(each, []).append(number)
    return list(places.items())


def _spans(numbers: list[int], rows: Sequence[Row]) -> list[str]:
    """A cell: 1-3, 5; empty for all variants."""
    if len(numbers) == len(rows):
        return [""]
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return [", ".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)]


def _which(numbers: list[int], rows: Sequence[Row]) -> str:
    """The variants that a sentence is about, where it is not about all."""
    named = _spans(numbers, rows)[0]
    return f"Variant{'' if len(numbers) == 1 else 's'} {named}: " if named else ""
