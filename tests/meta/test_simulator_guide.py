"""The page of the simulator: its Python, run as one program, prints what its comments say."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

from nvbackend import simulator
from nvbackend.diagnostics import Rule
from tests.meta.test_guide import BLOCK, run
from tests.meta.test_tiled_guide import PRINTED
from tests.support.process import ROOT

PAGE = ROOT / "docs" / "simulator.md"
RULE = re.compile(r"`([a-z0-9]+(?:-[a-z0-9]+)*\.[a-z][a-z0-9]*(?:-[a-z0-9]+)*)`")


def test_the_page_names_every_rule_of_a_run() -> None:
    """In its tables: what a run can find is what the modules of the simulator declare."""
    modules = pkgutil.walk_packages(simulator.__path__, "nvbackend.simulator.")
    found = [one for module in modules for one in vars(importlib.import_module(module.name)).values()]
    declared = {one.id for one in found if isinstance(one, Rule)}
    rows = "\n".join(line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `"))
    assert set(RULE.findall(rows)) & declared == declared


def test_the_page_of_the_simulator_runs(tmp_path: Path) -> None:
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) == 8
    code = "\n".join(blocks)
    done = run(tmp_path, code)
    assert done.stderr == ""
    assert done.stdout.splitlines() == PRINTED.findall(code)
