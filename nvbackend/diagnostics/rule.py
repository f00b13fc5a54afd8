"""A rule: what must hold, declared once and used by selector, verifier, analyses, docs and tests alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from nvbackend.diagnostics.diagnostic import Diagnostic, DiagnosticError, Severity
from nvbackend.diagnostics.location import Location, caller_location


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
