"""A rule in words: what it demands, why, and how a program keeps it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from nvbackend.cli.text import columns, count, paragraph
from nvbackend.diagnostics import Rule
from nvbackend.diagnostics.declared import PACKAGE, declared


def rules_by_id(others: Iterable[Rule] = ()) -> Mapping[str, Rule]:
    """nvbackend's own rules and `others`, by their ids, in the order of those."""
    every = {**declared(PACKAGE), **{rule.id: rule for rule in others}}
    return {rule: every[rule] for rule in sorted(every)}


def explained_rule(rule: Rule) -> Iterator[str]:
    """A rule's texts, with the values that a program fills in, in braces."""
    yield f"{rule.id}, {rule.severity.value}\n"
    yield paragraph(f"Message: {rule.message}", "  ")
    yield paragraph(f"Why: {rule.why}", "  ") if rule.why else ""
    yield paragraph(f"Fix: {rule.fix}", "  ")
    yield paragraph(f"See: {rule.reference}", "  ") if rule.reference else ""


def listed_rules(rules: Mapping[str, Rule]) -> Iterator[str]:
    """A line for each rule."""
    cells = [
        ("RULE", "SEVERITY", "MESSAGE"),
        *((each.id, each.severity.value, each.message) for each in rules.values()),
    ]
    yield from columns(cells)
    yield f"\n{count(len(rules), 'rule')}\n"


def rule_data(rule: Rule) -> dict[str, str]:
    """A rule as JSON has it."""
    texts = {"message": rule.message, "why": rule.why, "fix": rule.fix, "see": rule.reference}
    return {"rule": rule.id, "severity": rule.severity.value, **texts}
