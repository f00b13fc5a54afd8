"""The one form of a condition on what is asked for: a rule, and the values for its texts where the rule is broken.

Selector and verifier ask the same gates, so that neither takes what the other refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

from nvbackend.diagnostics import Diagnostic, Location, Rule
from nvbackend.intrinsics.row.features import Feature
from nvbackend.isel.target.target import Target, target_names

Request_contra = TypeVar("Request_contra", contravariant=True)
Values = dict[str, Any]
"""Values for the texts of a rule, by name."""


@dataclass(frozen=True)
class Gate(Generic[Request_contra]):
    """A rule, and whether a request on a target breaks it: then the values for the rule's texts, else None.

    A gate is also kept where another one already says why its question has no answer.
    """

    rule: Rule
    breach: Callable[[Request_contra, Target], Values | None]


def why_not(
    gates: Sequence[Gate[Request_contra]], request: Request_contra, target: Target, at: Location | None = None
) -> list[Diagnostic]:
    """Every rule that `request` breaks on `target`, in the order of `gates`, at `at` or else at the caller's line."""
    return [
        gate.rule.diagnose(at=at, **values) for gate in gates if (values := gate.breach(request, target)) is not None
    ]


@cache
def targets_with(*wanted: Feature) -> str:
    """The targets that have all of one of `wanted`, in words: a floor, `sm_80 or later`, or each by its name."""
    every = [Target.parse(name) for name in target_names()]
    having = [target for target in every if any(target.has(features) for features in wanted)]
    if having and having == every[every.index(having[0]) :]:
        return f"{having[0]} or later"
    names = [target.name for target in having]
    return " or ".join(names) if len(names) <= 2 else f"one of {', '.join(names)}"
