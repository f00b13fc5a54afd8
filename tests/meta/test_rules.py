"""Rules as declared, and the calls that break them."""

from __future__ import annotations

import functools
import re
from collections import Counter

import pytest

from tests.support.process import ROOT
from tests.support.rule_catalogue import Declared, breakings, declared_rules, fields
from tests.support.source import sources

RULES = declared_rules()
each_rule = pytest.mark.parametrize("declared", RULES, ids=[declared.rule.id for declared in RULES])

ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*(\.[a-z0-9]+(-[a-z0-9]+)*)+")
"""A family and what must hold there, such as wgmma.n-step."""


def test_ids_are_unique() -> None:
    counted = Counter(declared.rule.id for declared in RULES)
    assert {id for id, count in counted.items() if count > 1} == set()
    assert counted["target.unknown"] == 1


@each_rule
def test_a_rule_says_what_how_and_why(declared: Declared) -> None:
    rule = declared.rule
    assert ID.fullmatch(rule.id)
    for text in (rule.message, rule.fix, rule.why, rule.reference):
        assert text == text.strip()
        assert text


@each_rule
def test_texts_are_formats_over_named_values(declared: Declared) -> None:
    names = fields(declared.rule.message) | fields(declared.rule.fix)
    assert [name for name in names if not name.isidentifier()] == []


def test_every_call_gives_the_values_that_the_texts_need() -> None:
    calls = list(breakings())
    assert calls
    missing = [
        f"{call.module}:{call.line} {call.rule.id} needs {sorted(lacking)}"
        for call in calls
        if call.values is not None and (lacking := (fields(call.rule.message) | fields(call.rule.fix)) - call.values)
    ]
    assert missing == []


@each_rule
def test_some_test_names_the_rule(declared: Declared) -> None:
    """Every rule is broken by a test that says which: by id, by constant, or by what stands behind a family's dot."""
    id = declared.rule.id
    family, _, part = map(re.escape, id.partition("."))
    whole = rf"(?<![\w.-]){re.escape(id)}(?![\w-])" + (rf"|\b{declared.name}\b" if "_" in declared.name else "")
    parts = (rf"[\"']{family}\.[\"'{{]", rf"[\"']{part}[\"']")
    assert any(re.search(whole, text) or all(re.search(each, text) for each in parts) for text in _tests())


@functools.cache
def _tests() -> tuple[str, ...]:
    """The tests' texts, less the backslashes of regular expressions and less this folder, which breaks no rule."""
    found = (source for source in sources("tests") if not source.module.startswith("tests.meta"))
    return tuple(source.text.replace("\\", "") for source in found)


def test_a_document_that_a_rule_refers_to_is_here_and_has_the_section() -> None:
    """A reader of a diagnostic can open what it says to see: files of the repository, by their heading."""
    named = [
        (declared.rule.id, *found.groups())
        for declared in RULES
        for found in re.finditer(r"([\w/]+\.md), ([^;]+)", declared.rule.reference)
    ]
    assert named
    for rule, file, heading in named:
        assert f"\n## {heading}\n" in (ROOT / file).read_text(encoding="utf-8"), rule
    assert [declared.rule.id for declared in RULES if re.search("DESIGN|HARDWARE", declared.rule.reference)] == []
