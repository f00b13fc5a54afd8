"""The house rules that a reader would otherwise have to watch."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from tests.support.process import ROOT
from tests.support.source import PACKAGE, Source, functions, sources

MOST_LINES_A_FILE = 450
MOST_LINES_A_FUNCTION = 60
MAY_PRINT = ("nvbackend.cli", "nvbackend.__main__")

LIBRARY = sources(PACKAGE)
EVERYTHING = sources(PACKAGE, "tests", "samples", "benchmarks")

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def offenders(files: Iterable[Source], faults: Callable[[Source], Iterable[object]]) -> list[str]:
    """What is wrong with the files, each with its module."""
    return [f"{source.module}: {fault}" for source in files for fault in faults(source)]


def test_there_is_something_to_look_at() -> None:
    assert {"nvbackend.builder.kernel.kernel", "nvbackend.isel.verify.verify"} <= {source.module for source in LIBRARY}
    assert {"samples.hopper_gemm", "tests.conftest"} <= {source.module for source in EVERYTHING}


def test_files_are_short() -> None:
    lengths = {source.module: len(source.text.splitlines()) for source in EVERYTHING}
    assert {module: length for module, length in lengths.items() if length > MOST_LINES_A_FILE} == {}


def test_functions_are_shorter_than_a_screen() -> None:
    assert offenders(EVERYTHING, _long_functions) == []


def _long_functions(source: Source) -> Iterator[str]:
    for function in functions(source.tree):
        length = (function.end_lineno or 0) - function.lineno + 1
        if length > MOST_LINES_A_FUNCTION:
            yield f"{function.name} has {length} lines"


def test_files_say_what_they_are() -> None:
    assert [source.module for source in EVERYTHING if not ast.get_docstring(source.tree)] == []


def test_public_names_say_what_they_are() -> None:
    """A method that another class of the module describes, its protocol, need not say so again."""
    assert offenders(LIBRARY, _silent_names) == []


def _silent_names(source: Source) -> list[str]:
    found = list(_public(source.tree, source.module))
    described = {definition.name for _, definition in found if ast.get_docstring(definition)}
    methods = {name for name, _ in found if name.count(".") > source.module.count(".") + 1}
    silent = [name for name, definition in found if not ast.get_docstring(definition)]
    return [name for name in silent if name not in methods or name.rpartition(".")[2] not in described]


def _public(tree: ast.Module | ast.ClassDef, prefix: str) -> Iterator[tuple[str, Definition]]:
    for node in tree.body:
        if isinstance(node, Definition) and not node.name.startswith("_") and not _is_more_of_another(node):
            name = f"{prefix}.{node.name}"
            yield name, node
            if isinstance(node, ast.ClassDef):
                yield from _public(node, name)


def _is_more_of_another(node: Definition) -> bool:
    """A property's setter or an overload: the docstring is on the first definition."""
    decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
    return any(text.endswith((".setter", ".deleter")) or text == "overload" for text in decorators)


def test_no_two_classes_share_a_name() -> None:
    """Those of PTX's own text and of its execution may be called as what they are there."""
    places: dict[str, list[str]] = {}
    for source in LIBRARY:
        if not source.module.startswith(("nvbackend.ptx", "nvbackend.simulator", "nvbackend.dry_run")):
            for node in ast.walk(source.tree):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places.setdefault(node.name, []).append(source.module)
    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}


def test_the_library_does_not_print() -> None:
    quiet = [source for source in LIBRARY if not source.module.startswith(MAY_PRINT)]
    assert offenders(quiet, _prints) == []


def _prints(source: Source) -> list[int]:
    return [
        node.lineno
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]


def test_nothing_global_is_written_by_functions() -> None:
    assert (
        offenders(LIBRARY, lambda s: [node.lineno for node in ast.walk(s.tree) if isinstance(node, ast.Global)]) == []
    )


def test_the_environment_changes_no_result() -> None:
    """Only toolchain and cache places may come from the environment, and these are in codegen."""
    others = [source for source in LIBRARY if not source.module.startswith("nvbackend.codegen")]
    assert offenders(others, lambda source: re.findall(r"\bos\.(?:environ|getenv)\b", source.text)) == []


def test_no_reminders_are_left() -> None:
    marks = "|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK"))
    assert offenders(EVERYTHING, lambda source: re.findall(rf"\b(?:{marks})\b", source.text)) == []


@pytest.mark.parametrize("name", ["intrinsics", "isel"])
def test_the_layers_stand_at_the_top_as_links(name: str) -> None:
    link = ROOT / name
    assert link.is_symlink()
    assert link.readlink() == Path(PACKAGE) / name
    assert (link / "__init__.py").is_file()


def test_the_package_is_typed() -> None:
    assert (ROOT / PACKAGE / "py.typed").is_file()


def _defaults(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, str]:
    """The default of each parameter that has one, as it is written."""
    every = function.args
    placed = [*every.posonlyargs, *every.args]
    pairs = [*zip(placed[len(placed) - len(every.defaults) :], every.defaults, strict=True)]
    pairs += [(name, one) for name, one in zip(every.kwonlyargs, every.kw_defaults, strict=True) if one is not None]
    return {name.arg: ast.unparse(one) for name, one in pairs}


def _is_overload(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(ast.unparse(one).endswith("overload") for one in function.decorator_list)


def test_overloads_have_the_defaults_of_the_call() -> None:
    """An editor shows those of an overload, and Python takes those of the function after it."""
    wrong, seen = [], 0
    for source in LIBRARY:
        waiting: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
        for function in sorted(functions(source.tree), key=lambda one: one.lineno):
            if _is_overload(function):
                waiting.append(function)
                continue
            taken = _defaults(function)
            for shown in (one for one in waiting if one.name == function.name):
                seen += 1
                differing = [name for name, one in _defaults(shown).items() if taken.get(name) != one]
                wrong += [f"{source.module}:{shown.lineno}: {name}" for name in differing]
            waiting = []
    assert seen > 20
    assert wrong == []
