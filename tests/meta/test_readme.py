"""README, CONTRIBUTING and docs against the repository."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.meta.test_guide import BLOCK
from tests.support.process import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
TEXT = re.compile(r"^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
CARETS = re.compile(r"^ *[~^]+\n", re.MULTILINE)
"""What Python puts under the lines of a traceback, which differs from version to version."""
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
    assert asked == [["gpu,ptxas,sass"], ["test"]]
    assert {"gpu", "ptxas", "sass", "test"} <= extras.keys()
    described = set(re.findall(r"^\| `(\w+)` \|", README, re.MULTILINE))
    assert described == extras.keys()


def test_the_kernel_prints_what_the_readme_says(tmp_path: Path) -> None:
    (code,) = BLOCK.findall(README)
    report, error = TEXT.findall(README)
    made = _run(tmp_path, code)
    assert made.returncode == 0, made.stderr
    assert made.stdout.startswith(report)
    assert code.count("in_flight=0") == 1
    refused = _run(tmp_path, code.replace("in_flight=0", "in_flight=1"))
    assert refused.returncode == 1
    said = refused.stderr.replace(f"{tmp_path}/", "")
    assert CARETS.sub("", said) == CARETS.sub("", error)


def _run(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    program = folder / "gemm.py"
    program.write_text(code, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, str(program)], capture_output=True, text=True, env=environment, check=False)


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
