"""Rules by their ids on the command line: nvbackend's, and those of a module that it names."""

from __future__ import annotations

import json
import re
import sys
from importlib import metadata
from types import ModuleType
from typing import Any

import pytest

from nvbackend.cli.own_rows import RULES_GROUP
from nvbackend.cli.program import main
from nvbackend.rules import Rule
from tests.support.process import ROOT

OWN = Rule(
    "house.example", message="{what} is bad", fix="leave it out", why="Nobody likes it.", analysis=lambda flow: []
)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> str:
    made: Any = ModuleType("rules_of_somebody")
    made.rules = lambda: [OWN]
    made.others = lambda: [5]
    made.exits = lambda: sys.exit(0)
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


@pytest.mark.parametrize(
    "text", ["WGMMA.N-Step", "error[wgmma.n-step]", "warning[wgmma.n-step]: N is 12", " error[WGMMA.n-step]:"]
)
def test_a_rule_is_found_by_a_diagnostics_first_line_and_in_any_case(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed(capsys, "explain", text) == printed(capsys, "explain", "wgmma.n-step")
    assert printed(capsys, "explain", text)[0] == 0


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("shared.missing-barier", "shared.missing-barrier"),
        ("Shared.Missing-Barier", "shared.missing-barrier"),
        ("error[wgmma.nstep]: N is 12", "wgmma.n-step"),
        ("house.exampel", OWN.id),
        ("wgmma.read", "wgmma.read-in-flight"),
        ("Read in flight", "wgmma.read-in-flight"),
        ("missingbarrier", "cluster.missing-barrier, shared.missing-barrier, tcgen05.missing-barrier"),
        ("deadlock", "mbarrier.deadlock, simulator.deadlock"),
    ],
)
def test_the_nearest_rules_are_named(text: str, nearest: str, module: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, said = printed(capsys, "explain", text, "--rules", module)
    assert status != 0
    assert "is not the id of a rule that nvbackend knows" in said
    assert re.search(rf"fix: use (one of )?{re.escape(nearest)}(, |\n)", said)


def test_an_opcode_itself_comes_before_longer_ones(capsys: pytest.CaptureFixture[str]) -> None:
    heads = [line for line in printed(capsys, "explain", "cp.async")[1].splitlines() if line.startswith("cp.async")]
    assert heads[:2] == ["cp.async", "cp.async.bulk.prefetch.tensor"]


@pytest.mark.parametrize("text", ["add.u33", "ld.shared.b31", "wgmma.wait_grop", "tcgen05.comit"])
def test_a_misspelt_instruction_is_not_taken_for_a_rule(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"'{text}' is not the spelling of an instruction" in printed(capsys, "explain", text)[1]


def test_rules_have_the_texts_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    shown = re.findall(r"^### (\S+)\n\n> (.*)$", page, re.MULTILINE)
    assert len(shown) > 500
    _, text = printed(capsys, "catalogue", "--all-rules", "--json")
    messages = {each["rule"]: _plain(each["message"]) for each in json.loads(text)}
    assert {id: (messages[id], _plain(message)) for id, message in shown if messages[id] != _plain(message)} == {}


def _plain(text: str) -> str:
    return re.sub(r"[`\\]", "", " ".join(text.split())).removesuffix(" (a warning)")


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


def test_the_catalogue_lists_a_family_of_rules(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    listed = ("catalogue", "--all-rules", "--family")
    names = [each["rule"] for each in json.loads(printed(capsys, *listed, "shared", "--json")[1])]
    assert "shared.missing-barrier" in names
    assert all(name.startswith("shared.") for name in names)
    assert "1 rule\n" in printed(capsys, *listed, "house", "--rules", module)[1]
    status, text = printed(capsys, *listed, "shraed")
    assert status == 2
    assert "'shraed' is not a family of rules" in text
    assert "the nearest is shared" in text


def test_a_target_does_not_choose_among_rules(capsys: pytest.CaptureFixture[str]) -> None:
    status, text = printed(capsys, "catalogue", "--all-rules", "--target", "sm_90a")
    assert status == 2
    assert "--target does not choose among rules" in text


@pytest.mark.parametrize(
    ("source", "words"),
    [("rules_of_nobody", "ModuleNotFoundError"), ("{}:exits", "SystemExit: 0"), ("{}:others", "5 is not an nvb.Rule")],
)
def test_a_module_without_rules(source: str, words: str, module: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, text = printed(capsys, "catalogue", "--rules", source.format(module))
    assert status == 2
    assert words in text
