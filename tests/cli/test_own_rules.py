"""Rules by their ids on the command line: nvbackend's, and those of a module that it names."""

from __future__ import annotations

import json
import sys
from importlib import metadata
from types import ModuleType
from typing import Any

import pytest

from nvbackend.cli.own_rows import RULES_GROUP
from nvbackend.cli.program import main
from nvbackend.rules import Rule

OWN = Rule(
    "house.example", message="{what} is bad", fix="leave it out", why="Nobody likes it.", analysis=lambda flow: []
)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> str:
    made: Any = ModuleType("rules_of_somebody")
    made.rules = lambda: [OWN]
    made.others = lambda: [5]
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return str(made.__name__)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = main(arguments)
    said = capsys.readouterr()
    return status, said.out + said.err


def test_a_rule_of_ours_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    status, text = printed(capsys, "explain", "wgmma.n-step")
    assert status == 0
    assert "WGMMA N must be a multiple of {step}" in text
    assert "See: PTX ISA" in text


def test_a_rule_of_a_module_is_explained(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, text = printed(capsys, "explain", OWN.id, "--rules", module)
    assert status == 0
    assert "Why: Nobody likes it." in text
    assert printed(capsys, "explain", OWN.id)[0] != 0


def test_an_installed_package(module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    point = metadata.EntryPoint("mine", f"{module}:rules", RULES_GROUP)
    monkeypatch.setattr("nvbackend.cli.own_rows.entry_points", lambda group: [point] if group == RULES_GROUP else [])
    assert printed(capsys, "explain", OWN.id)[0] == 0


def test_the_catalogue_lists_rules(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, text = printed(capsys, "catalogue", "--rules", module)
    assert status == 0
    assert "house.example" in text
    assert "wgmma.n-step" in text
    status, text = printed(capsys, "catalogue", "--all-rules", "--json")
    by_id = {each["rule"]: each for each in json.loads(text)}
    assert OWN.id not in by_id
    assert by_id["wgmma.n-step"]["severity"] == "error"


@pytest.mark.parametrize(
    ("source", "words"), [("rules_of_nobody", "ModuleNotFoundError"), ("{}:others", "5 is not an nvb.Rule")]
)
def test_a_module_without_rules(source: str, words: str, module: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, text = printed(capsys, "catalogue", "--rules", source.format(module))
    assert status == 2
    assert words in text
