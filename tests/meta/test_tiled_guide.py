"""The guide to atoms over tiles: its Python, run block by block in one namespace, prints what its comments say."""

from __future__ import annotations

import re
from pathlib import Path

from tests.meta.test_guide import BLOCK, run
from tests.support.process import ROOT

GUIDE = ROOT / "docs" / "tiled.md"
PRINTED = re.compile(r"^print\(.*\)  # (.*?)(?:: .*)?$", re.MULTILINE)
"""A line that prints, and what: behind a colon and a blank stand words."""


def test_the_guide_to_atoms_over_tiles_runs(tmp_path: Path) -> None:
    blocks = BLOCK.findall(GUIDE.read_text(encoding="utf-8"))
    assert len(blocks) == 16
    code = "\n".join(blocks)
    done = run(tmp_path, code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == PRINTED.findall(code)
