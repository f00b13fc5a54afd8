"""All spellings of an instruction as one page: what its qualifiers can be, and which chips have how many of them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

from nvbackend.cli.explaining import row as page
from nvbackend.cli.text import columns, count, paragraph
from nvbackend.intrinsics.row.row import Row
from nvbackend.isel.target.target import Target

_EXTENTS = ("m", "n", "k")
_MOST_SUMMARIES = 6
_FEWEST_OF_A_SERIES = 4


def explained_opcode(rows: Sequence[Row], target: Target | None) -> Iterator[str]:
    """The page of rows whose spellings begin alike; each family has a part, under what its own begin with."""
    parts: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        parts.setdefault((row.family, row.section), []).append(row)
    for place, ((family, section), alike) in enumerate(parts.items()):
        yield "\n" if place else ""
        spellings = list(dict.fromkeys(row.ptx for row in alike))
        yield f"{_beginning(spellings)}\n"
        yield paragraph(f"{family}; PTX ISA {section}" if section else family, "  ")
        summaries = list(dict.fromkeys(row.summary for row in alike))[:_MOST_SUMMARIES]
        yield "\n" + paragraph(" ".join(summaries))
        yield f"\n{count(len(alike), 'variant')}, {count(len(spellings), 'spelling')}\n"
        yield from columns([("  axis", "values"), *_axes(alike)])
        yield "\n"
        yield from columns([("  variants", "need"), *_counted([page.needs(row) for row in alike])])
        if target is not None:
            verdicts = (page.on_target(row, target) for row in alike)
            said = [text if text.startswith("Legal") else f"Not legal on {target}." for text in verdicts]
            yield "\n"
            yield from columns([("  variants", ""), *_counted(said)])
        yield "\nOne of them has its operands, and which thread holds what:\n"
        yield f'  nvbackend explain "{spellings[0]}"\n'


def _beginning(spellings: Sequence[str]) -> str:
    """The qualifiers that all of the spellings begin with."""
    parts = zip(*(spelling.split(".") for spelling in spellings), strict=False)
    return ".".join(alike[0] for alike in itertools.takewhile(lambda alike: len(set(alike)) == 1, parts))


def _axes(rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """Each axis and its values in the order of the catalogue; a shape is as many axes as it has extents."""
    for axis in dict.fromkeys(name for row in rows for name in row.axes):
        values = list(dict.fromkeys(row.axes.get(axis) for row in rows))
        if all(isinstance(value, tuple) and len(value) == len(_EXTENTS) for value in values):
            for name, extents in zip(_EXTENTS, zip(*values, strict=True), strict=True):
                yield f"  {name}", _listed(sorted(set(extents)))
        else:
            yield f"  {axis.replace('_', ' ')}", _listed(values)


def _listed(values: Sequence[object]) -> str:
    return _series(values) or ", ".join(map(_shown, values))


def _series(values: Sequence[object]) -> str:
    """Numbers with one step between them in words, empty for others."""
    numbers = sorted(value for value in values if type(value) is int)
    if len(numbers) < len(values) or len(numbers) < _FEWEST_OF_A_SERIES:
        return ""
    steps = {high - low for low, high in itertools.pairwise(numbers)}
    step = f" by {min(steps)}" if min(steps) > 1 else ""
    return f"{numbers[0]} to {numbers[-1]}{step}" if len(steps) == 1 else ""


def _shown(value: object) -> str:
    return "none" if value is None else "no" if value is False else page.words(value)


def _counted(texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """How many variants each sentence is about, most first."""
    for text, number in Counter(texts).most_common():
        yield f"  {number if number < len(texts) else 'all'}", text.removeprefix("It needs ")
