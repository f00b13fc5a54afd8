"""Each rule is broken by the program that says so, and kept by its other half; the document shows both."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.rules.document import document
from tests.rules.example import Example, Side
from tests.rules.registry import examples
from tests.support.golden import Golden
from tests.support.process import ROOT
from tests.support.rule_catalogue import declared_rules

EXAMPLES = examples()
each_example = pytest.mark.parametrize("example", EXAMPLES, ids=[one.rule for one in EXAMPLES])


@each_example
def test_one_program_breaks_the_rule_and_no_other(example: Example) -> None:
    """Once, at a line of the program: where it marks one as broken that line, else one that both programs have."""
    found = example.diagnostics(Side.BREAKS)
    assert sorted(one.rule_id for one in found) == sorted((example.rule, *example.also)), list(map(str, found))
    for one in found if example.located else ():
        assert one.location is not None, str(one)
        assert one.location.file == example.file, str(one)
        assert one.location.line in example.lines, str(one)


@each_example
def test_the_other_program_keeps_every_rule(example: Example) -> None:
    assert list(map(str, example.diagnostics(Side.KEEPS))) == []


@each_example
def test_the_two_programs_differ(example: Example) -> None:
    assert {line[0] for line in example.text().splitlines() if line} >= {"-"} or "+" in example.text()


def test_every_rule_has_an_example() -> None:
    shown = {one.rule for one in EXAMPLES}
    declared = {one.rule.id for one in declared_rules()}
    assert declared - shown == set()
    assert shown - declared == set()


def test_a_rule_has_one_example() -> None:
    assert {rule: count for rule, count in Counter(one.rule for one in EXAMPLES).items() if count > 1} == {}


def test_the_document_is_up_to_date(request: pytest.FixtureRequest) -> None:
    Golden(ROOT / "docs", request.config.getoption("--update-golden")).check("rules.md", document())
