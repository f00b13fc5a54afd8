"""The form of the rules on requests: a rule, its predicate and the values for its texts, kept together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from nvbackend.diagnostics import Diagnostic, Location, Rule
from nvbackend.isel.target.target import Target

Request = TypeVar("Request")
Values = dict[str, Any]
"""Values for the texts of a rule, by name."""


@dataclass(frozen=True, slots=True)
class RequestGate(Generic[Request]):
    """A rule, whether a request keeps it on a target, and the values for its texts where it does not.

    A gate holds where another one already says why its question has no answer.
    """

    rule: Rule
    holds: Callable[[Request, Target], bool]
    values: Callable[[Request, Target], Values]


def broken_gates(
    gates: Sequence[RequestGate[Request]], request: Request, target: Target, at: Location | None = None
) -> list[Diagnostic]:
    """Every rule that `request` breaks on `target`, in the order of `gates`, at `at` or else at the caller's line."""
    return [
        gate.rule.diagnose(at=at, **gate.values(request, target)) for gate in gates if not gate.holds(request, target)
    ]
