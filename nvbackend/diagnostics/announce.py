"""Warnings where Python's programs look for them: the module `warnings`, and the logger "nvbackend"."""

from __future__ import annotations

from collections.abc import Iterable

from nvbackend.diagnostics.classes.brief import cut
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.diagnostics.diagnostic import Diagnostic
from nvbackend.diagnostics.location import Location, caller_location
from nvbackend.diagnostics.records import record

_PACKAGE = __name__.partition(".")[0]


class DiagnosticWarning(UserWarning):
    """The category of nvbackend's warnings, for `warnings.filterwarnings`: "error" makes errors of them."""

    __module__ = _PACKAGE

    def __repr__(self) -> str:
        return cut(f"<{str(self).partition(chr(10))[0]}>")


@record
@dataclass(frozen=True)
class Suppressed:
    """A diagnostic that the kernel allows, with the reason that its author gives."""

    diagnostic: Diagnostic
    reason: str

    def __str__(self) -> str:
        first, *_ = str(self.diagnostic).splitlines()
        place = self.diagnostic.location
        return f"{first}{f' ({place})' if place else ''}; allowed: {self.reason}"


def announce(diagnostics: Iterable[Diagnostic], suppressed: Iterable[Suppressed] = ()) -> None:
    """Log what is suppressed (INFO) and each warning (WARNING), and warn of it at its place, as DiagnosticWarning."""
    warned, allowed = tuple(diagnostics), tuple(suppressed)
    if not warned and not allowed:
        return
    import logging

    logger = logging.getLogger(_PACKAGE)
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())  # otherwise a program without logging would see warnings twice
    for each in allowed:
        logger.info("%s", each)
    for diagnostic in warned:
        logger.warning("%s", diagnostic)
        warn(str(diagnostic), DiagnosticWarning, diagnostic.location)


def warn(text: str, category: type[Warning], at: Location | None = None) -> None:
    """Warn at `at`, else at the user's line, else, where this package is the program, at no line of it."""
    import warnings

    place = at or caller_location()
    file, line = (place.file, place.line) if place else (_PACKAGE, 0)
    warnings.warn_explicit(text, category, file, line)
