"""Docstrings, comments and pages are plain English; messages are held to it by test_rule_words."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.support.process import ROOT

FOREIGN = re.compile(
    r"\bcan not\b|(?<!there )(?<!There )\b(is|are|was|were) (no|none)\b(?! (longer|more|less)\b)|\bthere is none\b"
    r"|\bst(and|ands|ood)\b|\btold\b|\bwhoever\b|\bbehind\b|\bfor ever\b|\bin front of\b|\bon this way\b"
)
"""What a native engineer does not write: say what a thing is, where it is, and who does what."""
FINISHED = (
    *(f"nvbackend/{room}" for room in ("diagnostics", "intrinsics", "isel", "layout", "atoms", "tiled")),
    *(f"nvbackend/{room}" for room in ("codegen", "ptx", "runtime", "cli", "lint", "tuning")),
    *("nvbackend/builder", "nvbackend/tileiras", "samples", "benchmarks"),
)
PAGES = ("README.md", "CONTRIBUTING.md", "docs/*.md")
MADE_OF_TESTS = {"docs/mutations.md"}
"""Pages whose words are docstrings of tests."""
VERBATIM = {
    "nvbackend/isel/protocols/proxy/protocol.py": {"told"},
}
"""Names of variables, by file."""


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a page; of a program its comments and docstrings."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield from enumerate(text.splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            for number, line in enumerate(node.value.value.splitlines()):
                yield node.lineno + number, line


def _words(name: str, line: str) -> set[str]:
    return {found.group() for found in FOREIGN.finditer(line)} - VERBATIM.get(name, set())


def test_docstrings_comments_and_pages_are_plain_english() -> None:
    programs = [path for room in FINISHED for path in (ROOT / room).rglob("*.py")]
    pages = [path for pattern in PAGES for path in ROOT.glob(pattern)]
    assert programs
    assert pages
    found = []
    for path in (*programs, *pages):
        name = path.relative_to(ROOT).as_posix()
        if name not in MADE_OF_TESTS:
            found += [f"{name}:{number}: {line}" for number, line in _texts(path) if _words(name, line)]
    assert found == []


def test_the_exceptions_are_needed() -> None:
    """An exception that no line needs any more would hide the next one."""
    for name, words in VERBATIM.items():
        used = {found.group() for _, line in _texts(ROOT / name) for found in FOREIGN.finditer(line)}
        assert words <= used, name
