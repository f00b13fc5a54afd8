"""What came of the problems of one process, by the lines that it and the tool print."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from tests.sanitizer.lines import Step, read

FOUND = 99
"""The status that the tool ends with where it reported anything."""
SHOWN = 3
"""Lines of a text that are kept."""
PREFIX = "========="
"""Of each line of the tool."""
NO_REPORTS = (
    *("COMPUTE-SANITIZER", "ERROR SUMMARY:", "RACECHECK SUMMARY:", "LEAK SUMMARY:"),
    *("Error: process didn't terminate successfully", "The application may have hit an error when dereferencing"),
    *("Target application ", "Error: Target application "),
)
"""What the lines of the tool begin with that tell of no error in a kernel."""


class Outcome(Enum):
    """What comes of a problem."""

    CLEAN = "clean"
    REPORTED = "reports"
    WRONG = "wrong numbers"
    FAILED = "failed"
    NOT_REACHED = "not reached"


class Result(NamedTuple):
    """What came of a problem, and some lines that say why."""

    name: str
    outcome: Outcome
    text: tuple[str, ...] = ()


ENDS = {Step.RIGHT: Outcome.CLEAN, Step.WRONG: Outcome.WRONG, Step.RAISED: Outcome.FAILED}


def reported(line: str) -> str:
    """What the tool says in a line of a report; empty for other lines."""
    if not line.startswith(PREFIX):
        return ""
    text = line.removeprefix(PREFIX).rstrip()
    return "" if text.strip().startswith(NO_REPORTS) else text.removeprefix(" ")


class Heard:
    """The lines of a process that runs these problems.

    A report is that of the problem launched last: the tool may print it after the line that says how the problem ended,
    but not as late as the next launch, for which operands are made.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.left = list(names)
        """Those that were not begun."""
        self._results: dict[str, Result] = {}
        self._begun = self._launched = ""
        self._reports: dict[str, list[str]] = {}
        self._others: deque[str] = deque(maxlen=SHOWN)

    def hear(self, text: str) -> bool:
        """Whether the line says how far a problem is."""
        line = read(text)
        if line is None:
            if report := reported(text):
                self._reports.setdefault(self._launched or self._begun, []).append(report)
            elif text.strip() and not text.startswith(PREFIX):
                self._others.append(text.strip())
            return False
        if line.step is Step.BEGUN:
            self.left.remove(line.name)
            self._begun = line.name
        elif line.step is Step.LAUNCHED:
            self._launched = line.name
        else:
            self._results[line.name] = Result(line.name, ENDS[line.step], (line.text,))
            self._begun = ""
        return True

    def end(self, why: str, status: int | None) -> list[Result]:
        """The results, when the process has ended: of a problem in the midst, that it failed."""
        if self._begun:
            self._results[self._begun] = Result(self._begun, Outcome.FAILED, (why, *self._others))
        if status == FOUND and self._launched and not self._reports:
            self._reports[self._launched] = ["the tool ends with errors, and printed none"]
        return [
            Result(name, Outcome.REPORTED, tuple(self._reports[name][:SHOWN])) if name in self._reports else result
            for name, result in self._results.items()
        ]

    def said(self, why: str) -> tuple[str, ...]:
        """Why no problem was begun."""
        return (why, *self._reports.get("", [])[:SHOWN], *self._others)
