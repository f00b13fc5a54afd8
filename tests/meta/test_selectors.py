"""One shape for every family that is asked for by requests, one gate, and one place for each question about it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.process import ROOT
from tests.support.source import PACKAGE, Source, sources

SELECT = ROOT / PACKAGE / "isel" / "select"
FAMILIES = sorted(path.parent for path in SELECT.glob("*/__init__.py"))
SHAPE = {
    "request.py": {"request_of"},
    "rules.py": {"Rule"},
    "select.py": {"GATES", "row_of", "why_not"},
}
"""The files of each family, and names that each of them has or asks for."""
EXTRAS = {
    ("tcgen05", "shapes.py"): "shape and types are in a word, the instruction descriptor, that the request may lack",
}
SHARED = {"rows.py", "shapes.py"}
"""What the families share: the way from a row to its request and gates, and shapes by their names."""
ALL = sources(PACKAGE)


def names(path: Path) -> set[str]:
    """Every name that the file defines at its top level or uses."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return defined | {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def definitions(source: Source) -> Iterator[tuple[str, ast.AST]]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, node


def calls_of(name: str) -> set[str]:
    """The modules that call a function or method of this name."""
    return {
        source.module
        for source in ALL
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call)
        and (getattr(node.func, "id", None) == name or getattr(node.func, "attr", None) == name)
    }


@pytest.mark.parametrize("folder", FAMILIES, ids=lambda path: path.name)
def test_a_family_has_these_files_and_no_others(folder: Path) -> None:
    extras = {file for family, file in EXTRAS if family == folder.name}
    assert {path.name for path in folder.glob("*.py")} == {"__init__.py", *SHAPE, *extras}
    for file, wanted in SHAPE.items():
        assert wanted <= names(folder / file), file


def test_beside_the_families_is_only_what_they_share() -> None:
    assert len(FAMILIES) >= 5
    assert {path.name for path in SELECT.glob("*.py")} == {"__init__.py", *SHARED}
    assert [pair for pair in EXTRAS if not SELECT.joinpath(*pair).exists()] == []


def test_there_is_one_gate() -> None:
    gates = [f"{source.module}.{name}" for source in ALL for name, _ in definitions(source) if name.endswith("Gate")]
    assert gates == ["nvbackend.isel.target.target.Gate"]


def test_one_function_says_why_a_candidate_fell_out() -> None:
    assert calls_of("breach") == {"nvbackend.isel.target.target"}
    assert {f"nvbackend.isel.select.{folder.name}.select" for folder in FAMILIES} <= calls_of("why_not")


def test_one_function_names_the_targets_with_a_feature() -> None:
    """The others that ask for every target list them, or tell a target from a commit."""
    listing = {"nvbackend.cli.targets", "nvbackend.cli.schema", "nvbackend.cli.build"}
    assert calls_of("target_names") == {"nvbackend.isel.target.target", *listing}
    assert len(calls_of("targets_with")) > 5
