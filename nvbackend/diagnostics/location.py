"""Where in the user's Python something was asked for."""

from __future__ import annotations

import linecache
import sys
from dataclasses import dataclass
from types import FrameType

_PACKAGE = __name__.partition(".")[0]
_GO_BETWEENS = frozenset({"contextlib", "functools", "typing"})
"""Standard modules whose frames stand between the user's line and ours: with-blocks, partial calls, generic aliases."""


@dataclass(frozen=True, slots=True)
class Location:
    """A line of source: file, 1-based line number, and the function it stands in."""

    file: str
    line: int
    function: str

    @property
    def source(self) -> str:
        """The text of the line, stripped; empty where the file can not be read."""
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def caller_location() -> Location | None:
    """The innermost frame that is the user's, or None where there is none (this package run as a program)."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not is_plumbing(frame):
            return Location(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return None


def error_location(error: BaseException) -> Location | None:
    """The user's line that raised `error` itself; None where it came from inside of this package."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or is_plumbing(trace.tb_frame):
        return None
    code = trace.tb_frame.f_code
    return Location(code.co_filename, trace.tb_lineno, code.co_name)


def is_plumbing(frame: FrameType) -> bool:
    """Whether `frame` belongs to this package or to a go-between of the standard library.

    Decided by the module's name, not by the file: the methods that dataclasses generate have no file, and a package
    reached through a link has two.
    """
    module = frame.f_globals.get("__name__", "")
    return module in _GO_BETWEENS or module.partition(".")[0] == _PACKAGE
