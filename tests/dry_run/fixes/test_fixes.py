"""The fix of a dry run, when it is followed, makes the program accepted, and right in the simulator."""

from __future__ import annotations

import functools
import re

import pytest

import nvbackend as nvb
from tests.dry_run.fixes import programs
from tests.dry_run.fixes.tried import Tried
from tests.dry_run.measure import SILENT, Simulated
from tests.rules.example import Side

TRIED = [one for one in vars(programs).values() if isinstance(one, Tried)]
each = pytest.mark.parametrize("one", TRIED, ids=[one.rule for one in TRIED])
CALL = re.compile(r"\bk((?:\.[a-z_0-9]+)+)")


def _fix(one: Tried) -> str:
    (found,) = one.example.diagnostics(Side.BREAKS)
    assert found.rule_id == one.rule
    return found.fix


@each
def test_only_the_run_sees_the_mistake_and_says_it_once(one: Tried) -> None:
    assert [found.rule_id for found in one.example.diagnostics(Side.BREAKS)] == [one.rule]
    assert one.example.build(Side.BREAKS, check=False).diagnostics == ()


@each
def test_the_fix_names_public_calls_that_it_adds(one: Tried) -> None:
    lines = one.example.text().splitlines()
    added = "\n".join(line for line in lines if line.startswith("+"))
    builder = nvb.KernelBuilder("names", "sm_90a", threads=128)
    for path in CALL.findall(_fix(one)):
        assert callable(functools.reduce(getattr, path[1:].split("."), builder)), path
    named = {path[1:] for path in CALL.findall(_fix(one))} - one.held
    assert not named or any(f"k.{name}(" in added for name in named), (named, added)


@each
def test_the_fix_names_lines_of_the_program(one: Tried) -> None:
    assert all(int(number) in one.example.lines for number in re.findall(r"\bline (\d+)", _fix(one)))


@each
def test_the_mended_program_is_accepted_and_right(one: Tried) -> None:
    assert one.example.diagnostics(Side.KEEPS) == ()
    assert Simulated(one).run(one.launch) == SILENT
