"""The guide to atoms over tiles: its Python, run block by block in one namespace, prints what its comments say."""

from __future__ import annotations

import re

from tests.meta.test_guide import BLOCK
from tests.support.process import ROOT, python_output

GUIDE = ROOT / "docs" / "tiled.md"
PRINTED = re.compile(r"^print\(.*\)  # (.*?)(?:: .*)?$", re.MULTILINE)
"""A line that prints, and what: behind a colon and a blank stand words."""


def test_the_guide_to_atoms_over_tiles_runs() -> None:
    blocks = BLOCK.findall(GUIDE.read_text(encoding="utf-8"))
    assert len(blocks) == 14
    code = "\n".join(blocks)
    assert python_output(code).splitlines() == PRINTED.findall(code)
