"""The repository's own Python as data: modules, their trees, and what they import."""

from __future__ import annotations

import ast
import functools
import gc
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.process import ROOT

PACKAGE = "nvbackend"


@dataclass(frozen=True, slots=True)
class Import:
    """One imported module. `lazy` where it stands in a function or is for type checkers alone."""

    module: str
    line: int
    lazy: bool


@dataclass(frozen=True)
class Source:
    """A file of Python; `module` is its dotted name from the repository's top level."""

    path: Path
    module: str

    @functools.cached_property
    def text(self) -> str:
        """The file's text."""
        return self.path.read_text(encoding="utf-8")

    @functools.cached_property
    def tree(self) -> ast.Module:
        """The file's syntax tree; those of all files are millions of objects, kept from the garbage collector."""
        gc.disable()
        try:
            return ast.parse(self.text, str(self.path))
        finally:
            gc.freeze()
            gc.enable()

    def __str__(self) -> str:
        return self.module


@functools.cache
def sources(*folders: str) -> tuple[Source, ...]:
    """Every Python file below the named top-level folders, in the order of their names."""
    return tuple(Source(path, _dotted(path)) for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))


def _dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def imports(source: Source) -> tuple[Import, ...]:
    """Every module that `source` imports, wherever in the file; names imported from a package that are modules count
    as these modules."""
    known = {other.module for other in sources(PACKAGE)}
    return tuple(
        Import(module, getattr(node, "lineno", 0), lazy)
        for node, lazy in _walk(source.tree, False)
        for module in _modules(node, known)
    )


def _walk(node: ast.AST, lazy: bool) -> Iterator[tuple[ast.AST, bool]]:
    yield node, lazy
    lazy = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or _for_type_checkers(node)
    for child in ast.iter_child_nodes(node):
        yield from _walk(child, lazy)


def _for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _modules(node: ast.AST, known: set[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"line {node.lineno}: relative import"
        assert node.module is not None
        for alias in node.names:
            full = f"{node.module}.{alias.name}"
            yield full if full in known else node.module


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method of a tree, nested ones included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
