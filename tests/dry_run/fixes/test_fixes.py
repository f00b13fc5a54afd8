"""The fix of a dry run, when it is followed, makes the program accepted, and right in the simulator."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re

import pytest

import nvbackend as nvb
from nvbackend.diagnostics import Rule
from nvbackend.dry_run import rules
from tests.dry_run import fixes
from tests.dry_run.fixes.tried import Tried
from tests.dry_run.measure import SILENT, Simulated
from tests.rules.example import Side

_FILES = [one.name for one in pkgutil.iter_modules(fixes.__path__) if not one.name.startswith("test_")]
TRIED = [
    one
    for name in _FILES
    for one in vars(importlib.import_module(f"{fixes.__name__}.{name}")).values()
    if isinstance(one, Tried)
]
each = pytest.mark.parametrize("one", TRIED, ids=[f"{one.rule}-{one.name}" for one in TRIED])
CALL = re.compile(r"\bk((?:\.[a-z_0-9]+)+)")
UNTRIED = {
    "dry-run.no-sizes": "its fix is an argument of build, and no line of the kernel",
    "cluster.each-asks": "the simulator starts every cluster at once, and none is taken over: tests/rules builds it",
}
"""Rules of the dry run whose fix no test tries, and why."""


@functools.cache
def _said(name: str) -> nvb.Diagnostic:
    tried = next(one for one in TRIED if one.name == name)
    (said,) = tried.found()
    assert said.rule_id == tried.rule
    return said


def test_every_rule_has_a_tried_fix() -> None:
    """Or says why it has none."""
    declared = {one.id for one in vars(rules).values() if isinstance(one, Rule)}
    tried = [one.rule for one in TRIED]
    assert len({one.name for one in TRIED}) == len(TRIED)
    assert set(tried) | set(UNTRIED) == declared and not set(tried) & set(UNTRIED)


@each
def test_the_run_says_the_mistake_once(one: Tried) -> None:
    """And the verifier does not see it, or says that it does."""
    assert _said(one.name).rule_id == one.rule
    if one.verified:
        with pytest.raises(nvb.DiagnosticError):
            one.example.build(Side.BREAKS, check=False)
    else:
        assert one.example.build(Side.BREAKS, check=False).diagnostics == ()


@each
def test_the_mended_program_does_what_the_fix_says(one: Tried) -> None:
    """Calls that the fix names are public, and one of them is added; or the fix has the words that are followed."""
    fix, lines = _said(one.name).fix, one.example.text().splitlines()
    added = "\n".join(line for line in lines if line.startswith("+"))
    builder = nvb.KernelBuilder("names", one.example.target, threads=128)
    named = {path[1:] for path in CALL.findall(fix)}
    for path in named:
        assert callable(functools.reduce(getattr, path.split("."), builder)), path
    assert one.says in fix
    assert one.says or any(f"k.{name}(" in added for name in named - one.held), (named, added)


@each
def test_the_fix_names_lines_of_the_program(one: Tried) -> None:
    """Or of a helper that it calls."""
    said = _said(one.name)
    place = said.location
    assert place is not None
    inside = place.file == one.example.file and place.line in one.example.lines
    assert not inside or all(int(number) in one.example.lines for number in re.findall(r"\bline (\d+)", said.fix))


@pytest.mark.sampled(2)
@each
def test_the_mended_program_is_accepted_and_right(one: Tried) -> None:
    assert one.example.diagnostics(Side.KEEPS) == ()
    assert Simulated(one).run(one.launch) == SILENT
