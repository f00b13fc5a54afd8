"""What each line of the user's program did."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from nvbackend.diagnostics import Location
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.simulator.events import Site
from nvbackend.simulator.report.columns import Column, number, table
from nvbackend.simulator.report.uses import Use


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
        columns = (
            Column("line", ">"),
            Column("threads", ">"),
            Column("global", ">"),
            Column("shared", ">"),
            Column("conflicts", ">"),
            Column("waited", ">"),
            Column("", "<"),
        )
        parts = []
        for file in files:
            rows = [_row(location, use) for location, use in self.lines if location.file == file]
            parts.append(f"{self.kernel} by the lines of {os.path.basename(file)}\n{table(columns, rows)}")
        return "\n\n".join(parts)


def _row(location: Location, use: Use) -> tuple[str, ...]:
    shared = sum(each[space] for each in (use.read, use.written) for space in ("shared", "distributed"))
    return (
        str(location.line),
        number(use.threads),
        number(use.read["global"] + use.written["global"]),
        number(shared),
        number(use.shared.excess),
        number(use.waited),
        location.source,
    )


def by_line(kernel: str, uses: Iterable[tuple[Site, Use]]) -> LineTable:
    """The table of the instructions' uses."""
    found: dict[tuple[str, int], tuple[Location, Use]] = {}
    for site, use in uses:
        key = site.location.file, site.location.line
        found.setdefault(key, (site.location, Use()))[1].add(use)
    return LineTable(kernel, tuple(found[key] for key in sorted(found)))
