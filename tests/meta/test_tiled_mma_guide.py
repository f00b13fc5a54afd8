"""The guide to tiled MMAs: its Python, run block by block in one namespace, and what its comments say is printed."""

from __future__ import annotations

import re

from tests.meta.test_guide import BLOCK
from tests.support.process import ROOT, python_output

GUIDE = ROOT / "docs" / "tiled_mma.md"
PRINTED = re.compile(r"^print\(.*\)  # (.*?)(?:: lanes and columns)?$", re.MULTILINE)


def test_the_guide_to_tiled_mmas_runs() -> None:
    blocks = BLOCK.findall(GUIDE.read_text(encoding="utf-8"))
    assert len(blocks) == 6
    code = "\n".join(blocks)
    expected = PRINTED.findall(code)
    assert len(expected) == 4
    assert python_output(code).splitlines() == expected
