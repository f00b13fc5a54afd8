"""What each line of the user's program did."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from nvbackend.diagnostics import Location
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.simulator.events import Site
from nvbackend.simulator.report.columns import Column, number, table
from nvbackend.simulator.report.uses import Threads, Use

_WATCHED = ("global", "shared", "conflicts", "waited")
"""Columns of a launch that was asked for a report."""


@dataclass(frozen=True, slots=True)
class LineTable:
    """The lines of a program in their order, each with what it did."""

    kernel: str
    lines: tuple[tuple[Location, Use], ...]

    def __iter__(self) -> Iterator[tuple[Location, Use]]:
        return iter(self.lines)

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, line: int) -> Use:
        """What a line did, by its number; in several files the first that has it. Raises KeyError."""
        found = next((use for location, use in self.lines if location.line == line), None)
        if found is None:
            raise KeyError(line)
        return found

    def __str__(self) -> str:
        files = list(dict.fromkeys(location.file for location, _ in self.lines))
        watched = () if any(isinstance(use, Threads) for _, use in self.lines) else _WATCHED
        columns = (*(Column(name, ">") for name in ("line", "threads", *watched)), Column("", "<"))
        parts = []
        for file in files:
            rows = [_row(location, use) for location, use in self.lines if location.file == file]
            parts.append(f"{self.kernel} by the lines of {os.path.basename(file)}\n{table(columns, rows)}")
        return "\n\n".join(parts)


def _row(location: Location, use: Use) -> tuple[str, ...]:
    watched = () if isinstance(use, Threads) else map(number, _watched(use))
    return str(location.line), number(use.threads), *watched, location.source


def _watched(use: Use) -> Iterator[int]:
    """The numbers below `_WATCHED`."""
    yield use.read["global"] + use.written["global"]
    yield sum(each[space] for each in (use.read, use.written) for space in ("shared", "distributed"))
    yield use.shared.excess
    yield use.waited


def by_line(kernel: str, uses: Iterable[tuple[Site, Use]], *, is_whole: bool) -> LineTable:
    """The table of the instructions' uses; of a launch that was not asked for a report, of their threads."""
    found: dict[tuple[str, int], tuple[Location, Use]] = {}
    for site, use in uses:
        key = site.location.file, site.location.line
        found.setdefault(key, (site.location, Use()))[1].add(use)
    lines = [found[key] for key in sorted(found)]
    if not is_whole:
        lines = [(place, Threads(kernel, use.threads)) for place, use in lines]
    return LineTable(kernel, tuple(lines))
