"""The sources of the site: every page of docs/ and every public name is there, and links lead to pages."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

import pytest

from tests.api.public import names, nouns
from tests.site import pages, reference
from tests.support.process import ROOT


@pytest.fixture(scope="module")
def sources(module_monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Every page but that of the targets, which takes seconds."""
    module_monkeypatch.setattr("tests.site.support.page", lambda: "# targets\n")
    return pages.pages()


@pytest.fixture(scope="module")
def module_monkeypatch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def test_every_page_of_the_repository_is_in_it(sources: dict[str, str]) -> None:
    kept = {path.name for path in (ROOT / "docs").glob("*.md")} - {"api.md", "rules.md"}
    assert kept - sources.keys() == set()


def test_every_page_is_in_a_table_of_contents(sources: dict[str, str]) -> None:
    listed = ["index.md"]
    for name, text in sources.items():
        for block in re.findall(r"```{toctree}\n(.*?)```", text, re.DOTALL):
            lines = [line for line in block.splitlines() if line and not line.startswith(":")]
            listed += [posixpath.join(posixpath.dirname(name), f"{line}.md") for line in lines]
    assert sorted(listed) == sorted(sources)


def test_links_between_pages_lead_somewhere(sources: dict[str, str]) -> None:
    broken = []
    for name, text in sources.items():
        prose = re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)
        for path in re.findall(r"\]\(([^)#:\s]+\.(?:md|py|svg))", prose):
            there = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
            if there not in sources and not (ROOT / "docs" / there.removeprefix("docs/")).is_file():
                broken.append(f"{name}: {path}")
    assert broken == []


def test_each_rule_is_on_the_page_of_its_family(sources: dict[str, str]) -> None:
    there = {
        rule: name
        for name, text in sources.items()
        if name.startswith("rules/")
        for rule in re.findall(r"(?m)^## (\S+)$", text)
    }
    assert {f"rules/{rule.partition('.')[0]}.md" == there.get(rule) for rule in pages.rule_ids()} == {True}


def test_each_public_name_has_a_heading(sources: dict[str, str]) -> None:
    headings = set(re.findall(r"(?m)^##+ (\S+)$", "".join(sources.values())))
    elements = {f"nvb.{name}" for name in re.findall(r"`nvb\.(\w+)`", sources["api/nvb.md"].partition("\n\n")[2])}
    assert {name for name in names() if name not in headings} - elements == {"nvb.KernelBuilder"}
    assert {f"k.{noun}.{call}" for noun, made in nouns().items() for call in dir(made) if call == "load"} <= headings


def test_a_link_moves_with_its_page() -> None:
    there = {"guide.md", "index.md", "rules/tma.md", "rules/tma-copy.md", "rules/index.md", "samples/rows.md"}
    text = "[a](docs/guide.md#b) [c](docs/rules.md#tmabox) [d](docs/rules.md#tma-copybox) [e](samples/rows.py) [f](#g)"
    moved = "[a](guide.md#b) [c](rules/tma.md#tmabox) [d](rules/tma-copy.md#tma-copybox) [e](samples/rows.md) [f](#g)"
    assert pages.relinked("index.md", text, frozenset(there)) == moved
    folder = frozenset({"samples/gemm.md"})
    assert pages.relinked("guide.md", "[a](../samples/gemm/wide.py)", folder) == "[a](samples/gemm.md)"
    assert pages.relinked("rules/tma.md", "[a](#tma-copybox)", frozenset(there)) == "[a](tma-copy.md#tma-copybox)"
    assert pages.relinked("guide.md", "```\n[a](../README.md)\n```\n[a](../README.md)", frozenset(there)) == (
        "```\n[a](../README.md)\n```\n[a](index.md)"
    )


def test_a_long_signature_has_a_line_for_each_parameter() -> None:
    long = f"k.copy(a: dict[str, int], b: tuple[int, ...] = (1, 2), {'c' * 70}: int = 0) -> None"
    lines = reference.wrapped(long).splitlines()
    assert lines[1:3] == ["    a: dict[str, int],", "    b: tuple[int, ...] = (1, 2),"]
    assert (lines[0], lines[-1]) == ("k.copy(", ") -> None")
    assert reference.wrapped("k.copy(a, b)") == "k.copy(a, b)"


def test_ids_of_rules_are_links_but_in_code() -> None:
    text = "Raises tma.box, and `tma.box`.\n# tma.box\n```\ntma.box\n```\nnot.tma.box tma.box-row"
    linked = "Raises [tma.box](rules.md#tmabox), and `tma.box`.\n# tma.box\n```\ntma.box\n```\nnot.tma.box tma.box-row"
    assert reference.linked(text, ["tma.box"]) == linked
