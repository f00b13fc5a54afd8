"""What must hold, what is said where it does not, and the exception that carries it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from nvbackend.diagnostics.location import Location, caller_location


class Severity(enum.Enum):
    """How bad: an error stops the build, a warning does not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class Rule:
    """Something that must hold.

    `message` and `fix` are format strings over the values given where the rule is broken; `why` says what happens on
    the hardware when nobody checks; `reference` names the source (PTX ISA section, LLVM file, measured fact).
    """

    id: str
    message: str
    fix: str
    why: str
    reference: str = ""
    severity: Severity = Severity.ERROR

    def diagnose(
        self,
        *,
        at: Location | None = None,
        notes: tuple[tuple[str, Location | None], ...] = (),
        **values: object,
    ) -> Diagnostic:
        """The diagnostic of this rule with `values` filled in, at `at` or else at the caller's line."""
        location = at if at is not None else caller_location()
        return Diagnostic(
            rule=self,
            message=self.message.format(**values),
            location=location,
            fix=self.fix.format(**values),
            values=values,
            notes=notes,
        )

    def fail(
        self,
        *,
        at: Location | None = None,
        notes: tuple[tuple[str, Location | None], ...] = (),
        **values: object,
    ) -> NoReturn:
        """Raise this rule's diagnostic on its own."""
        raise DiagnosticError([self.diagnose(at=at, notes=notes, **values)])


@dataclass(frozen=True)
class Diagnostic:
    """One broken rule: its id, what was found (actual values), where in the user's Python, and a fix.

    `values` are what the rule's texts were filled in with; `notes` are other places that matter, each with what
    happened there.
    """

    rule: Rule
    message: str
    location: Location | None = None
    fix: str = ""
    values: Mapping[str, object] = field(default_factory=dict, hash=False)
    notes: tuple[tuple[str, Location | None], ...] = ()

    @property
    def rule_id(self) -> str:
        """The broken rule's id, such as `wgmma.n-step`."""
        return self.rule.id

    @property
    def severity(self) -> Severity:
        """Whether it stops the build."""
        return self.rule.severity

    def __str__(self) -> str:
        lines = [f"{self.severity.value}[{self.rule_id}]: {self.message}"]
        lines += _place("  at ", self.location)
        for text, location in self.notes:
            lines.append(f"  note: {text}")
            lines += _place("    at ", location)
        if self.fix:
            lines.append(f"  fix: {self.fix}")
        if self.rule.reference:
            lines.append(f"  see: {self.rule.reference}")
        return "\n".join(lines)


def _place(prefix: str, location: Location | None) -> list[str]:
    if location is None:
        return []
    source = location.source
    return [f"{prefix}{location}" + (f"    {source}" if source else "")]


class DiagnosticError(Exception):
    """Raised with every error found together; `diagnostics` holds them in the order of the program."""

    __module__ = __name__.partition(".")[0]  # where users catch it, and what a traceback calls it

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__(self.diagnostics)

    def __str__(self) -> str:
        text = "\n".join(str(diagnostic) for diagnostic in self.diagnostics)
        return text if len(self.diagnostics) == 1 else f"{len(self.diagnostics)} diagnostics\n{text}"


def gather(*checks: Callable[[], object]) -> list[Diagnostic]:
    """What the checks raise, in order: each is called, and one that raises does not keep the others from speaking."""
    found: list[Diagnostic] = []
    for check in checks:
        try:
            check()
        except DiagnosticError as error:
            found += error.diagnostics
    return found


def raise_all(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Raise DiagnosticError if any of `diagnostics` is an error, else return them (all warnings)."""
    found = tuple(diagnostics)
    if any(diagnostic.severity is Severity.ERROR for diagnostic in found):
        raise DiagnosticError(found)
    return found
