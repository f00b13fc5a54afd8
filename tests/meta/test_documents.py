"""docs/documents.md: every name and every test exists, every text stands in its test, every difference has its row."""

from __future__ import annotations

import ast
import importlib
import re
from functools import cache
from typing import Any, get_type_hints

import pytest

import nvbackend
from tests.meta.test_divergences import ROWS
from tests.support.process import ROOT
from tests.support.rule_catalogue import declared_rules

PAGE = (ROOT / "docs" / "documents.md").read_text(encoding="utf-8")
TABLES = re.findall(r"^(\| (?:artefact|text) \|.*\n)\| --- .*\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
DOCUMENTS = 5


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("\n|").split("|")]


LINES = [(cells(head), cells(line)) for head, body in TABLES for line in body.splitlines()]
ARTEFACTS = [line for head, line in LINES if head[0] == "artefact"]
TEXTS = [line for head, line in LINES if head[0] == "text"]


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@cache
def names_in(place: str) -> frozenset[str]:
    """The tests of a file."""
    tree = ast.parse((ROOT / "tests" / f"{place}.py").read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


@cache
def strings_in(place: str) -> frozenset[str]:
    tree = ast.parse((ROOT / "tests" / f"{place}.py").read_text(encoding="utf-8"))
    return frozenset(
        node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and type(node.value) is str
    )


@cache
def rule_ids() -> frozenset[str]:
    return frozenset(one.rule.id for one in declared_rules())


def found(name: str) -> Any:
    """What a name of the page stands for; AttributeError where there is none such."""
    if name.startswith("k."):
        here: Any = nvbackend.KernelBuilder
        for part in name.split(".")[1:]:
            here = getattr(here, part, None) or get_type_hints(here)[part]
        return here
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            here = importlib.import_module(".".join(["nvbackend", *parts[:length]]))
        except ModuleNotFoundError:
            continue
        rest = parts[length:]
        break
    else:
        here, rest = nvbackend, parts
    for part in rest:
        fields = getattr(here, "__dataclass_fields__", {})
        here = fields[part] if part in fields and not hasattr(here, part) else getattr(here, part)
    return here


@pytest.mark.parametrize("line", ARTEFACTS + TEXTS, ids=lambda line: line[0][:60])
def test_every_name_and_every_test_exists(line: list[str]) -> None:
    names, tests = quoted(line[1]), quoted(line[2])
    assert names
    assert tests
    for name in names:
        if name.startswith("rule:"):
            assert name.removeprefix("rule:") in rule_ids(), name
        else:
            assert found(name) is not None
    for test in tests:
        place, _, function = test.partition("::")
        assert function in names_in(place), test


@pytest.mark.parametrize("line", TEXTS, ids=lambda line: line[0][:60])
def test_a_diagnostic_stands_in_its_test_letter_by_letter(line: list[str]) -> None:
    places = [test.partition("::")[0] for test in quoted(line[2])]
    assert any(line[0] in text for place in places for text in strings_in(place))


@pytest.mark.parametrize("line", [one for one in ARTEFACTS if one[3]], ids=lambda line: line[0][:60])
def test_a_difference_has_its_row(line: list[str]) -> None:
    assert [row[0] for row in ROWS if row[0].startswith(line[3])], line[3]


def test_the_page_is_of_all_five_documents() -> None:
    assert len(re.findall(r"^## ", PAGE, re.MULTILINE)) == DOCUMENTS
    assert len(ARTEFACTS) > 150
    assert len(TEXTS) == 22
    assert all(len(line) == 4 for line in ARTEFACTS)


def test_every_row_of_the_divergences_about_a_document_is_named_here() -> None:
    """A claim of a seed or of the notes stands beside the artefact that makes it."""
    claims = [row[0] for row in ROWS if re.search(r"\b(?:seeds?|notes)\b", row[0])]
    named = [one[3] for one in ARTEFACTS if one[3]]
    assert [claim for claim in claims if not any(claim.startswith(one) for one in named)] == []
