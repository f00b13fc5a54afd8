"""The registry of wrong programs: each names a rule that is declared, and marks the lines that break it."""

from __future__ import annotations

from tests.rules.registry import pairs, programs, texts
from tests.support.machine import Program
from tests.support.rule_catalogue import declared_rules


def test_each_pair_names_a_declared_rule() -> None:
    declared = {one.rule.id for one in declared_rules()}
    found = list(pairs())
    assert {rule for _, rule in found} - declared == set()
    assert len(found) > 700


def test_wrong_programs_mark_lines_and_right_ones_none() -> None:
    assert [one.name for one in programs() if bool(one.marked) is (one.rule is None)] == []


def test_wrong_texts_mark_lines_and_right_ones_none() -> None:
    for side in ("wrong", "right"):
        assert {bool(Program(text).expected) for text in texts("wgmma", side).values()} == {side == "wrong"}
