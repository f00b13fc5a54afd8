"""Rows and rules that are not nvbackend's own: of installed packages, and of modules that the command line names.

And rules in words, theirs and nvbackend's.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from itertools import chain
from typing import Any, NoReturn

from nvbackend.cli.rules import OWN_ROWS
from nvbackend.cli.text import columns, count, paragraph
from nvbackend.diagnostics import Rule
from nvbackend.diagnostics.declared import PACKAGE, declared
from nvbackend.intrinsics.row.row import Row
from nvbackend.isel.verify.own_rules import checked_rules

GROUP = "nvbackend.rows"
"""The entry points of packages that have rows: functions that give them. Those that have rules are in RULES_GROUP."""
RULES_GROUP = "nvbackend.rules"
_ROWS, _RULES = "rows", "rules"
"""The options, and the functions of a module that are called where none is named."""


def add_option(parser: argparse.ArgumentParser, what: str = _ROWS) -> None:
    """`--rows` of a command, or `--rules`."""
    text = f"{what} of your own: those that {what}(), or another function of this module, returns; may be repeated"
    parser.add_argument(f"--{what}", metavar="MODULE[:FUNCTION]", action="append", default=[], help=text)


def add_rules_option(parser: argparse.ArgumentParser) -> None:
    """`--rules` of a command."""
    add_option(parser, _RULES)


def own_rows(named: Sequence[str]) -> Iterator[Row]:
    """The rows of the modules that are named, and of installed packages. Raises cli.own-rows."""
    for source, row in _objects(_ROWS, GROUP, named):
        if not isinstance(row, Row):
            _refuse(_ROWS, source, f"it gives {row!r}, which is not a Row")
        yield row


def own_rules(named: Sequence[str]) -> tuple[Rule, ...]:
    """The rules of the modules that are named, and of installed packages. Raises cli.own-rows and rule.form."""
    return checked_rules([rule for _, rule in _objects(_RULES, RULES_GROUP, named)])


def _objects(what: str, group: str, named: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """What the functions give, each with the function's name."""
    installed = ((each.value, each.load) for each in entry_points(group=group))
    for source, load in chain(installed, ((text, _loader(text, what)) for text in named)):
        try:
            objects = list(load()())
        except (Exception, SystemExit, GeneratorExit) as error:  # noqa: BLE001 (the code of others raises whatever it likes)
            _refuse(what, source, f"{type(error).__name__}: {error}")
        yield from ((source, each) for each in objects)


def _loader(text: str, what: str) -> Callable[[], Any]:
    module, _, function = text.partition(":")
    return lambda: getattr(importlib.import_module(module), function or what)


def _refuse(what: str, source: str, problem: str) -> NoReturn:
    kind = {_ROWS: "Row", _RULES: "Rule"}[what]
    OWN_ROWS.fail(what=what, source=source, problem=problem, kind=kind)


def rules_by_id(others: Iterable[Rule]) -> Mapping[str, Rule]:
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
    if "{" in rule.message + rule.fix:
        yield paragraph("Words in braces are replaced by the values of a program.", "  ")
    if rule.id in declared(PACKAGE):
        yield paragraph(f"Example: {_example(rule)}, the smallest program that breaks it, and its fix", "  ")


def _example(rule: Rule) -> str:
    """Where the page of rules shows it."""
    return f"docs/rules.md#{rule.id.replace('.', '')}"


def listed_rules(rules: Mapping[str, Rule]) -> Iterator[str]:
    """A line for each rule."""
    cells = [
        ("RULE", "SEVERITY", "MESSAGE"),
        *((each.id, each.severity.value, each.message) for each in rules.values()),
    ]
    yield from columns(cells)
    yield f"\n{count(len(rules), 'rule')}\n"


def rule_data(rule: Rule) -> dict[str, str | None]:
    """A rule as JSON has it; a user's own has no example."""
    texts = {"message": rule.message, "why": rule.why, "fix": rule.fix, "see": rule.reference}
    example = _example(rule) if rule.id in declared(PACKAGE) else None
    return {"rule": rule.id, "severity": rule.severity.value, **texts, "example": example}
