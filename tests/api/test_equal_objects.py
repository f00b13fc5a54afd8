"""Objects that are made twice alike are equal and have one hash, and what they print is a line without long texts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import f16, f32, i32
from nvbackend.diagnostics import Diagnostic, Location, Rule, Severity
from nvbackend.runtime.arguments.arrays import read_array
from nvbackend.tiled import ldmatrix_copy
from tests.support.runtime import FakeArray

LONGEST = 300
OPTIONS: dict[str, Any] = {"assemble": False, "cache": nvb.Cache.disabled()}
HERE = Location(__file__, 1, "here")
RULE = Rule("made-up.rule", "bad {what}", "do it right")


@nvb.kernel("sm_90a", threads=32)
def fill(k: Any, out: nvb.Pointer[f32]) -> None:
    out[k.thread_id()] = 1.0


@nvb.function
def twice(k: Any, x: i32) -> i32:
    return x * 2


MADE: dict[str, Callable[[], Any]] = {
    "finished kernel": fill.build,
    "compiled kernel": lambda: fill.compile(**OPTIONS),
    "compiled function": lambda: twice.compile("sm_90a"),
    "compiled module": lambda: nvb.compile_module([fill], **OPTIONS),
    "diagnostic": lambda: RULE.diagnose(what="text", at=HERE),
    "copy atom": lambda: ldmatrix_copy(f16),
}
"""Things that are made from others, and may keep what they were made of."""
UNHASHABLE = {"compiled module"}
"""What has a mapping of its own."""


@pytest.mark.parametrize("what", MADE)
def test_what_is_made_twice_alike_is_equal(what: str) -> None:
    one, other = MADE[what](), MADE[what]()
    assert one == other
    assert one is not other
    if what not in UNHASHABLE:
        assert hash(one) == hash(other)
    assert len(repr(one)) < LONGEST
    assert " at 0x" not in repr(one)


def test_how_a_line_was_reached_is_no_part_of_it() -> None:
    reached = [HERE, dataclasses.replace(HERE, callers=(HERE,)), dataclasses.replace(HERE, column=7)]
    assert len(set(reached)) == 1
    assert len({HERE, dataclasses.replace(HERE, line=2), dataclasses.replace(HERE, function="there")}) == 3


def test_what_a_diagnostic_was_made_of_counts_but_has_no_hash() -> None:
    one, other = (RULE.diagnose(what=what) for what in ("a", "b"))
    assert one != other
    silent = [Diagnostic(RULE, "m", values={"what": each}) for each in ([], {})]
    assert silent[0] != silent[1]
    assert hash(silent[0]) == hash(silent[1])


def test_an_analysis_is_no_part_of_a_rule() -> None:
    fields = {"severity": Severity.WARNING}
    rules = [dataclasses.replace(RULE, analysis=each, **fields) for each in (None, lambda _: (), lambda _: [])]
    assert len(set(rules)) == 1
    assert rules[0] != RULE


def test_an_array_prints_what_it_says_and_not_its_owner() -> None:
    array = FakeArray((64, 128))
    facts = read_array(array)
    assert facts is not None
    assert facts == read_array(array)
    assert "FakeArray" not in repr(facts)
    assert (facts.readonly, facts.is_contiguous) == (False, True)
