"""What a diagnostic says of the numbers with which it was found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice

from nvbackend.diagnostics import Diagnostic
from nvbackend.dry_run.rules import DEADLOCK

MOST_NUMBERS = 3
"""A deadlock names at most so many numbers in memory."""


def with_values(found: Diagnostic, values: Mapping[str, float]) -> Diagnostic:
    """A diagnostic that names the parameters with which it was found."""
    return replace(found, message=f"{found.message} (with {listed(values)})") if values else found


def with_data(found: Diagnostic, numbers: Mapping[str, float]) -> Diagnostic:
    """A deadlock that names the numbers in memory with which threads wait, and how to rule them out."""
    if found.rule_id != DEADLOCK.id or not numbers:
        return found
    few = dict(islice(numbers.items(), MOST_NUMBERS))
    which = f"{next(iter(few))} never has that value" if len(few) == 1 else "they never have these values together"
    return replace(with_values(found, few), fix=f"{found.fix}; if {which}, rule it out with k.assume")


def listed(values: Mapping[str, float]) -> str:
    """Names and numbers in a row."""
    return ", ".join(f"{name} = {number}" for name, number in values.items())
