"""docs/documents.md: every name and every test exists, every text stands in its test, every difference has its row."""

from __future__ import annotations

import ast
import importlib
import re
from functools import cache
from operator import attrgetter
from typing import Any

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


@cache
def builder() -> nvbackend.KernelBuilder:
    return nvbackend.KernelBuilder("page", "sm_100a", threads=32)


def found(name: str) -> Any:
    """What a name of the page stands for; AttributeError where there is none such."""
    if name.startswith("k."):
        return attrgetter(name.removeprefix("k."))(builder())
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


def test_every_line_names_something_and_a_test_of_it() -> None:
    assert [line[0] for line in ARTEFACTS + TEXTS if not quoted(line[1]) or not quoted(line[2])] == []


def test_every_name_exists() -> None:
    names = dict.fromkeys(name for line in ARTEFACTS + TEXTS for name in quoted(line[1]))
    rules = [name.removeprefix("rule:") for name in names if name.startswith("rule:")]
    assert [rule for rule in rules if rule not in rule_ids()] == []
    assert [name for name in names if not name.startswith("rule:") and found(name) is None] == []


def test_every_test_exists() -> None:
    tests = dict.fromkeys(test for line in ARTEFACTS + TEXTS for test in quoted(line[2]))
    places = [(test, *test.split("::")) for test in tests]
    assert [test for test, place, function in places if function not in names_in(place)] == []


def test_diagnostics_are_in_their_tests_letter_by_letter() -> None:
    places = {line[0]: [test.partition("::")[0] for test in quoted(line[2])] for line in TEXTS}
    missing = [
        said for said, among in places.items() if not any(said in text for place in among for text in strings_in(place))
    ]
    assert missing == []


def test_every_difference_has_its_row() -> None:
    differences = [line[3] for line in ARTEFACTS if line[3]]
    assert [one for one in differences if not any(row[0].startswith(one) for row in ROWS)] == []


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
