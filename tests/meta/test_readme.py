"""README, CONTRIBUTING and docs against the repository."""

from __future__ import annotations

import functools
import re
import tomllib
from pathlib import Path

import pytest

from tests.support.process import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _first_block() -> list[str]:
    match = re.search(r"^```\w*\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert match is not None
    return match[1].splitlines()


def test_the_first_block_is_the_sample_and_the_tests() -> None:
    sample, tests = _first_block()
    assert sample.endswith(" samples/hopper_gemm.py")
    assert (ROOT / "samples" / "hopper_gemm.py").is_file()
    assert re.search(r"bin/pytest\b", tests)


def test_the_block_installs_extras_that_exist() -> None:
    extras = PROJECT["optional-dependencies"]
    asked = [re.findall(r'"\.\[(.*?)\]"', line) for line in _first_block()]
    assert asked == [["gpu,ptxas"], ["test"]]
    assert {"gpu", "ptxas", "test"} <= extras.keys()
    described = set(re.findall(r"^\| `(\w+)` \|", README, re.MULTILINE))
    assert described == extras.keys()


def test_places_that_it_names_exist() -> None:
    places = re.findall(r"^\| `(\w+/[\w/]*)` \|", README, re.MULTILINE)
    links = re.findall(r"\]\(([\w./]+)\)", README)
    assert len(places) > 4
    assert [place for place in [*places, *links] if not (ROOT / place).exists()] == []


def test_the_core_needs_llvmlite_and_numpy_alone() -> None:
    assert sorted(re.split(r"[<>=]", need)[0] for need in PROJECT["dependencies"]) == ["llvmlite", "numpy"]


def test_the_row_that_contributing_shows_is_the_real_one() -> None:
    match = re.search(r"^```python\n(.*?)^```$", CONTRIBUTING, re.MULTILINE | re.DOTALL)
    assert match is not None
    shown = [re.sub(r"\s+#.*", "", line) for line in match[1].splitlines()]
    real = (ROOT / "nvbackend" / "intrinsics" / "sync" / "register_budget.py").read_text(encoding="utf-8").splitlines()
    assert "    return Row(" in shown
    assert [line for line in shown if line not in real] == []


def test_files_that_contributing_names_exist() -> None:
    named = re.findall(r"`((?:nvbackend|tests)/[\w/.]+)`", CONTRIBUTING)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


@functools.cache
def headings(document: Path) -> set[str]:
    """The anchors of a document: its headings in lower case, spaces as hyphens, marks left out."""
    text = re.sub(r"^```.*?^```$", "", document.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found}


def dead_links(document: Path) -> list[str]:
    """Links of a document to files that are not there, and to headings that the file does not have."""
    text = re.sub(r"^```.*?^```$|`[^`\n]*`", "", document.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    dead = []
    for link in re.findall(r"\]\(([^()\s]+)\)", text):
        place, _, anchor = link.partition("#")
        target = document.parent / place if place else document
        if link.startswith(("http:", "https:")):
            continue
        if not target.exists() or (anchor and anchor not in headings(target)):
            dead.append(link)
    return dead


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    assert dead_links(document) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_that_a_document_names_exist(document: Path) -> None:
    named = re.findall(
        r"(?<![\w./-])((?:nvbackend|tests|samples|benchmarks|docs)/[\w/]+\.(?:py|md))\b",
        document.read_text(encoding="utf-8"),
    )
    assert sorted({name for name in named if not (ROOT / name).exists()}) == []


def test_dead_links_are_found(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text("# One, two\n[a](page.md#one-two) [b](#three) [c](gone.md)\n```\n[d](code)\n```\n`[e](f)`\n")
    assert dead_links(document) == ["#three", "gone.md"]
