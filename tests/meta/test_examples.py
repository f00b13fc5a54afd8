"""Every public function, class and method is called by an example of a page: examples run with a recorder of calls."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.meta.test_guide import BLOCK, STEPS
from tests.meta.test_linking_page import NEED
from tests.support.process import ROOT
from tests.support.public_calls import public_calls

WITHOUT = ROOT / "tests" / "meta" / "without_example.txt"
"""Those whose example cannot run on any machine, each with the reason: `name: reason`. A new name must not add one."""
FRAMEWORKS = ("from cuda", "import torch", "import jax", "import cupy", "ptx_of_lto_ir")
"""What blocks of linking.md import that need a GPU, or a framework that is no dependency of the tests."""
PAGES = (
    *("atoms", "architecture", "calls", "checks", "debugging", "embedding", "layout", "linking", "looking"),
    *("simulator", "stability", "tiled"),
)
PROGRAM = """\
import nvbackend as nvb
from nvbackend import f32, layout


@nvb.kernel("sm_80", threads=32)
def kernel(k, out: nvb.Pointer[f32]):
    acc = k.tiled_mma(nvb.mma.sync("m16n8k16", nvb.f16, nvb.f16, f32)).accumulator()
    out[k.lane_id()] = k.warp.reduce("add", acc.elements().reduce_rows("add").values[0])


kernel.build()
layout.Layout(4)
"""


def _recorded(folder: Path, programs: dict[str, str], *options: str) -> dict[str, Any]:
    """What the programs call, each a file of its own, and all that is public."""
    files = [folder / f"{name}.py" for name in programs]
    for file, text in zip(files, programs.values(), strict=True):
        file.write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "tests.support.recorder", *map(str, files), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    recorded: dict[str, Any] = json.loads(done.stdout)
    return recorded


def _programs(folder: Path) -> dict[str, str]:
    """The examples of the pages; those of the rules run by themselves."""
    guide = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
    blocks = {page: BLOCK.findall((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")) for page in PAGES}
    blocks["linking"] = [block for block in blocks["linking"] if not any(need in block for need in FRAMEWORKS)]
    blocks["looking"].insert(0, f"scratch = {str(folder)!r}\n")
    blocks["rest"] = BLOCK.findall(guide[guide.index("\n## Values and variables") :])
    blocks["readme"] = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    steps = {f"step{number}": step.program for number, step in enumerate(STEPS)}
    return {name: "\n".join(parts) for name, parts in blocks.items()} | steps


@pytest.mark.exhaustive(seconds=70)
def test_every_public_call_has_an_example(tmp_path: Path) -> None:
    recorded = _recorded(tmp_path, _programs(tmp_path), "--rules")
    missing = sorted(set(recorded["public"]) - set(recorded["called"]))
    assert [name for name in missing if name not in _without()] == [], "docs/calls.md is a place for an example"


def _without() -> dict[str, str]:
    """The reason for each name."""
    lines = WITHOUT.read_text(encoding="utf-8").splitlines()
    return {name: reason for name, _, reason in (line.partition(": ") for line in lines)}


def test_what_has_no_example_has_a_reason_and_one_that_runs_elsewhere() -> None:
    """On a GPU, in tests/meta/test_linking_page.py."""
    without = _without()
    assert list(without) == sorted(without) and all(without.values())
    assert set(without) <= {full for full, _, _ in public_calls()}
    page = (ROOT / "docs" / "linking.md").read_text(encoding="utf-8")
    elsewhere = [block for block in BLOCK.findall(page) if any(need in block for need in NEED)]
    for name in without:
        assert any(f"{name}(" in block for block in elsewhere), name


def test_the_recorder_sees_what_a_program_itself_calls(tmp_path: Path) -> None:
    recorded = _recorded(tmp_path, {"program": PROGRAM})
    seen = {"nvb.kernel", "k.lane_id", "k.tiled_mma", "nvb.mma.sync", "nvb.RegisterTensor.elements", "k.warp.reduce"}
    made = {"nvb.layout.Layout", "nvb.KernelDefinition", "nvb.TileValues.reduce_rows"}
    assert (seen | made) - set(recorded["called"]) == set()
    inside = {"k.warp.shuffle", "k.warp.sync", "nvb.TileValues.items", "nvb.FinishedKernel.compile", "k.math.max"}
    assert inside & set(recorded["called"]) == set()
    assert inside <= set(recorded["public"])
