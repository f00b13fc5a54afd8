"""The report of a launch."""

from __future__ import annotations

from typing import NoReturn

from nvbackend.diagnostics import user_facing
from nvbackend.simulator.report import lines, text
from nvbackend.simulator.report.facts import WATCHED, Facts
from nvbackend.simulator.report.timeline import Timeline, draw
from nvbackend.simulator.rules import NOT_KEPT, REPORT


@user_facing
class Report(Facts):
    """What a launch did. `str(report)` shows it on a screen.

    Instructions are always counted; the rest is there where the launch was asked for it (`report=True`), which takes
    longer. A *step* is one instruction of a warp, on a clock of its own: warps run side by side, a copy is in flight
    for 512 steps and a product of the tensor cores for 64 (`report.clock` says how). Steps compare waits with each
    other and launches of one kernel, not with cycles of a chip.
    """

    def __getattr__(self, name: str) -> NoReturn:
        """Raises simulator.report for what was not watched: zeros would say that there was none of it."""
        if name in WATCHED:
            REPORT.fail(what=f"`{name}`", kernel=self.kernel, problem=NOT_KEPT, more="")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def __str__(self) -> str:
        return text.screen(self)

    def __repr__(self) -> str:
        return f"<report of {self.kernel}: {self.instructions.total()} instructions of threads>"

    def by_line(self) -> lines.LineTable:
        """What each line of the user's program did (of the PTX, where it has no `.loc`); `str` of it is a table."""
        return lines.by_line(self.kernel, self.record.uses.values(), is_whole=self.is_whole)

    def timeline(self, *, first: int = 0, last: int | None = None, cta: int = 0) -> Timeline:
        """Warps, waits and operations in flight from step `first` to `last` (None: what a picture holds), as SVG.

        `cta` is the rank of a CTA in the first cluster. Raises simulator.report where the launch was asked for none.
        """
        return draw(self, first, last, cta)
