"""What is public: docs/api.md says it, every name has a docstring, and programs and pages use nothing else."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

import pytest

import nvbackend as nvb
from tests.api.document import document
from tests.api.public import modules, names
from tests.meta.test_guide import BLOCK
from tests.support.golden import Golden
from tests.support.process import ROOT

PUBLIC = {name.removeprefix("nvb."): given for name, given in names().items()}
PLACES = {"__version__", *PUBLIC, *(name.removeprefix("nvb.") for name, _ in modules())}
INSIDE = {"docs/rules.md", "docs/divergences.md", "benchmarks/verification.py", "benchmarks/pictures.py"}
"""What looks at tables and passes themselves: rules on rows and machine forms, evidence, the cost of each analysis, the
rates of a chip."""
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
PROGRAMS = [path for folder in ("samples", "benchmarks", "tests/corpus") for path in (ROOT / folder).glob("*.py")]
USERS = [path for path in (*PAGES, *PROGRAMS) if str(path.relative_to(ROOT)) not in INSIDE]


@pytest.mark.parametrize("name", ["mma", "wgmma", "wmma", "tcgen05", "tma"])
def test_a_module_of_requests_that_is_called_says_what_to_call(name: str) -> None:
    module = getattr(nvb, name)
    with pytest.raises(
        nvb.DiagnosticError, match=rf"call\.argument.*nvb\.{name}: holds the calls nvb\.{name}\."
    ) as caught:
        module(1, n=2)
    told = caught.value.diagnostics[0].message
    assert all((f"nvb.{name}.{one}" in told) == (one != "select") for one in module.__all__)


def test_the_document_is_up_to_date(request: pytest.FixtureRequest) -> None:
    Golden(ROOT / "docs", request.config.getoption("--update-golden")).check("api.md", document())


def test_every_name_has_a_docstring() -> None:
    """Of its own: what a dataclass writes by itself is the constructor."""
    assert {"Value", "Tensor", "wgmma.mma_async", "wgmma.select", "layout.Layout"} <= set(PUBLIC)
    described = {name: given for name, given in PUBLIC.items() if isinstance(given, type | FunctionType)}
    assert [name for name, given in described.items() if not _described(given)] == []
    assert [name for name, module in modules() if not inspect.getdoc(module)] == []


def _described(given: type | FunctionType) -> bool:
    written = inspect.getdoc(given) or ""
    return bool(written) and not (dataclasses.is_dataclass(given) and written.startswith(f"{given.__name__}("))  # type: ignore[union-attr]


@pytest.mark.parametrize("path", USERS, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_else_is_used(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    programs = [text] if path.suffix == ".py" else BLOCK.findall(text)
    assert sorted({name for program in programs for name in used(program)} - PLACES) == []


def used(program: str) -> Iterator[str]:
    """The names of nvbackend that a program imports or reaches through `nvb`, without the package's own."""
    tree = ast.parse(program)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name.removeprefix("nvbackend.") for one in node.names if one.name.startswith("nvbackend."))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "nvbackend":
            yield from (f"{node.module}.{one.name}".removeprefix("nvbackend.") for one in node.names)
        elif isinstance(node, ast.Attribute) and (found := re.match(r"nvb\.(\w+)(\.\w+)?", ast.unparse(node))):
            module = found[1] if found[1] in PLACES - PUBLIC.keys() else ""
            yield f"{module}{found[2]}" if module and found[2] else found[1]


def test_the_witness_sees_what_is_not_public() -> None:
    program = (
        "import nvbackend.builder\nfrom nvbackend.layout import Layout, text\nnvb.wgmma.rules; nvb.f16.bits; nvb.Core"
    )
    assert set(used(program)) - PLACES == {"builder", "layout.text", "wgmma.rules", "Core"}
