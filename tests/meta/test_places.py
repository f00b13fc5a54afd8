"""What analyses of a finished function report has a place: each of their diagnostics is given one.

Without one it has the line of whoever calls, which is that of `finish()`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import nvbackend

PACKAGE = Path(nvbackend.__file__).parent
ANALYSES = ("isel/protocols", "isel/verify", "isel/machine", "isel/operands", "dry_run")
OF_CALLS = {
    "isel/operands/sync.py": ["CLUSTER_PORTABLE_SIZE"],
    "isel/operands/tensor_map_boxes.py": ["BOX_RANK", "BOX_BYTES", "SWIZZLE", "BOX"],
    "dry_run/findings.py": ["found"],
}
"""The size of a cluster and the boxes of tensor maps, which are declared, and a finding, which has its place."""


def without_a_place(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            given = [keyword.arg for keyword in node.keywords]
            if node.func.attr == "diagnose" and "at" not in given:
                yield ast.unparse(node.func.value)


def test_each_diagnostic_of_an_analysis_has_a_place() -> None:
    files = [file for folder in ANALYSES for file in sorted((PACKAGE / folder).rglob("*.py"))]
    assert len(files) > 100
    found = {str(file.relative_to(PACKAGE)): [*without_a_place(file)] for file in files}
    assert {file: rules for file, rules in found.items() if rules} == OF_CALLS
