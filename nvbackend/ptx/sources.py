"""The places of source that `.loc` of a text names, with the lines that they were inlined at."""

from __future__ import annotations

from collections.abc import Mapping

from nvbackend.diagnostics import Location
from nvbackend.ptx.syntax import Loc


class Sources:
    """Reads the `.loc` of a function in order: what was inlined at a place was called by the last that named it."""

    def __init__(self, files: Mapping[int, str]) -> None:
        self._files = files
        self._last: dict[tuple[int, int, int], Location] = {}

    def at(self, directive: Loc, function: str = "") -> Location:
        """The place that it names, in `function`; its callers are innermost first."""
        callers: tuple[Location, ...] = ()
        if directive.inlined_at is not None:
            caller = self._last.get(directive.inlined_at)
            if caller is None:
                file, line, column = directive.inlined_at
                caller = Location(self._files.get(file, "?"), line, function, column=column)
            callers = caller, *caller.callers
        place = Location(self._files.get(directive.file, "?"), directive.line, function, callers)
        self._last[directive.file, directive.line, directive.column] = place
        return place
