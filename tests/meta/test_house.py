"""The house rules that a reader would otherwise have to watch."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.process import ROOT
from tests.support.source import PACKAGE, Source, functions, sources

MOST_LINES_A_FILE = 450
MOST_LINES_A_FUNCTION = 60
MAY_PRINT = ("nvbackend.cli", "nvbackend.__main__")

LIBRARY = sources(PACKAGE)
EVERYTHING = sources(PACKAGE, "tests", "samples", "benchmarks")
each_file = pytest.mark.parametrize("source", EVERYTHING, ids=str)
each_module = pytest.mark.parametrize("source", LIBRARY, ids=str)

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@each_file
def test_files_are_short(source: Source) -> None:
    assert len(source.text.splitlines()) <= MOST_LINES_A_FILE


@each_file
def test_functions_are_shorter_than_a_screen(source: Source) -> None:
    lengths = {function.name: (function.end_lineno or 0) - function.lineno + 1 for function in functions(source.tree)}
    assert {name: length for name, length in lengths.items() if length > MOST_LINES_A_FUNCTION} == {}


@each_file
def test_files_say_what_they_are(source: Source) -> None:
    assert ast.get_docstring(source.tree)


@each_module
def test_public_names_say_what_they_are(source: Source) -> None:
    """A method that another class of the module describes, its protocol, need not say so again."""
    found = list(_public(source.tree, source.module))
    described = {definition.name for _, definition in found if ast.get_docstring(definition)}
    methods = {name for name, _ in found if name.count(".") > source.module.count(".") + 1}
    silent = [name for name, definition in found if not ast.get_docstring(definition)]
    assert [name for name in silent if name not in methods or name.rpartition(".")[2] not in described] == []


def _public(tree: ast.Module | ast.ClassDef, prefix: str) -> Iterator[tuple[str, Definition]]:
    for node in tree.body:
        if isinstance(node, Definition) and not node.name.startswith("_") and not _is_more_of_another(node):
            name = f"{prefix}.{node.name}"
            yield name, node
            if isinstance(node, ast.ClassDef):
                yield from _public(node, name)


def _is_more_of_another(node: Definition) -> bool:
    """A property's setter or an overload: what it is stands elsewhere."""
    decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
    return any(text.endswith((".setter", ".deleter")) or text == "overload" for text in decorators)


@each_module
def test_the_library_does_not_print(source: Source) -> None:
    calls = [
        node.lineno
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert calls == [] or source.module.startswith(MAY_PRINT)


@each_module
def test_nothing_global_is_written_by_functions(source: Source) -> None:
    statements = [node.lineno for node in ast.walk(source.tree) if isinstance(node, ast.Global)]
    assert statements == []


@each_module
def test_the_environment_changes_no_result(source: Source) -> None:
    """Only toolchain and cache places may come from the environment, and these are in codegen."""
    reads = re.findall(r"\bos\.(?:environ|getenv)\b", source.text)
    assert reads == [] or source.module.startswith("nvbackend.codegen")


@each_file
def test_no_reminders_are_left(source: Source) -> None:
    marks = "|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK"))
    assert re.findall(rf"\b(?:{marks})\b", source.text) == []


@pytest.mark.parametrize("name", ["intrinsics", "isel"])
def test_the_layers_stand_at_the_top_as_links(name: str) -> None:
    link = ROOT / name
    assert link.is_symlink()
    assert link.readlink() == Path(PACKAGE) / name
    assert (link / "__init__.py").is_file()


def test_the_package_is_typed() -> None:
    assert (ROOT / PACKAGE / "py.typed").is_file()
