"""Warnings where Python's programs look for them: the module `warnings`, and the logger "nvbackend"."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nvbackend.diagnostics.brief import cut
from nvbackend.diagnostics.diagnostic import Diagnostic
from nvbackend.diagnostics.records import record


class DiagnosticWarning(UserWarning):
    """The category of nvbackend's warnings, for `warnings.filterwarnings`: "error" makes errors of them."""

    __module__ = __name__.partition(".")[0]

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
    import warnings

    logger = logging.getLogger(__package__.partition(".")[0])
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())  # otherwise a program without logging would see warnings twice
    for each in allowed:
        logger.info("%s", each)
    for diagnostic in warned:
        logger.warning("%s", diagnostic)
        at = diagnostic.location
        if at is None:
            warnings.warn(str(diagnostic), DiagnosticWarning, stacklevel=2)
        else:
            warnings.warn_explicit(str(diagnostic), DiagnosticWarning, at.file, at.line)
